//! Reference resolution: documents, `$id`, anchors, pointers, and the dynamic scope.
//!
//! Loading indexes the schema, then every document that a reference names, until all references
//! have a target. Documents are the caller's or built-in metaschemas; nothing is fetched. The
//! compiler tracks the dynamic scope, so a validation does not depend on it.
//!
//! Invariants: a queue of references replaces recursion; each document is indexed once.

use std::sync::Arc;

use crate::json::sort::sort;
use crate::json::{Doc, Kind, NodeId, ParseLimits, Value};

use super::keyword::{Keyword, Rules, vocabulary};
use super::resources::{Invalid, Parent, Place, RECURSIVE, ResourceIndex};
use super::resources::{KeyMap, key};
use super::{Dialect, Options, SchemaLimits, metaschema, uri};

/// Objects with more members get an index for pointers.
const MAX_UNINDEXED: usize = 32;

/// Target of a reference.
pub(super) struct Target {
    pub(super) place: Place,
    /// The pointer from the root of the target's resource, if the reference has one.
    pub(super) pointer: Option<String>,
    /// The anchor, if the reference names one.
    pub(super) anchor: Option<String>,
    /// The anchor to search in the dynamic scope first.
    pub(super) dynamic: Option<String>,
}

fn target_key(place: Place, keyword: Keyword) -> Vec<u8> {
    key(&[place.document, place.node.index(), keyword as u32], "")
}

/// All documents of one schema, and their index.
pub(super) struct Library<'o> {
    pub(super) docs: Vec<Arc<Doc>>,
    pub(super) index: ResourceIndex,
    /// Targets of references, or the reason why a reference has no target.
    targets: KeyMap,
    targeted: Vec<Result<Target, Box<Invalid>>>,
    options: &'o Options,
    has_all_documents: bool,
    /// The members of large objects on the path of pointers.
    members: KeyMap,
    /// Names of dynamic references.
    dynamic_names: KeyMap,
    scopes: Vec<Vec<(String, Place)>>,
    scope_ids: KeyMap,
    entered: KeyMap,
}

impl<'o> Library<'o> {
    pub(super) fn new(options: &'o Options) -> Library<'o> {
        Library {
            docs: Vec::new(),
            index: ResourceIndex::default(),
            targets: KeyMap::default(),
            targeted: Vec::new(),
            options,
            has_all_documents: false,
            members: KeyMap::default(),
            dynamic_names: KeyMap::default(),
            scopes: vec![Vec::new()],
            scope_ids: KeyMap::default(),
            entered: KeyMap::default(),
        }
    }

    /// Indexes the schema and all documents it refers to.
    pub(super) fn load(&mut self, schema: Doc) -> Result<(), Box<Invalid>> {
        self.add("", Arc::new(schema), Rules::of(self.options.dialect))?;
        while let Some(at) = self.index.references.pop() {
            self.refer(at)?;
        }
        Ok(())
    }

    /// Resolves the references of one subschema.
    #[cold]
    #[inline(never)]
    fn refer(&mut self, at: Place) -> Result<(), Box<Invalid>> {
        let doc = self.doc(at.document);
        let schema = doc.at(at.node);
        let resource = self.index.places.get(at).unwrap_or(0);
        let rules = self.index.rules(resource);
        for (name, value) in schema.members() {
            let Some(keyword) = Keyword::find(name, rules) else { continue };
            if matches!(keyword, Keyword::Ref | Keyword::DynamicRef | Keyword::RecursiveRef) {
                let text = value.as_str().unwrap_or_default();
                let target = self.resolve(keyword, text, resource).map_err(|message| {
                    let at = Place { document: at.document, node: value.id() };
                    Invalid::from_message(at, format!("{text:?} {message}"))
                });
                match &target {
                    Ok(Target { dynamic: Some(name), .. }) => {
                        self.dynamic_names.enter(name.as_bytes(), 0);
                    }
                    // In other documents, only reachable references must resolve.
                    Err(fault) if at.document == 0 => return Err(fault.clone()),
                    _ => {}
                }
                let next = self.targeted.len() as u64;
                if self.targets.enter(&target_key(at, keyword), next) == next {
                    self.targeted.push(target);
                }
            }
        }
        Ok(())
    }

    /// Target of the reference of a subschema with this keyword.
    pub(super) fn target(&self, place: Place, keyword: Keyword) -> Option<&Result<Target, Box<Invalid>>> {
        let number = self.targets.get(&target_key(place, keyword))?;
        self.targeted.get(number as usize)
    }

    pub(super) fn doc(&self, document: u32) -> Arc<Doc> {
        // OK because documents are never removed; an empty one is cheap.
        self.docs.get(document as usize).cloned().unwrap_or_default()
    }

    fn add(&mut self, base: &str, doc: Arc<Doc>, rules: Rules) -> Result<(), Box<Invalid>> {
        let document = self.docs.len() as u32;
        self.docs.push(Arc::clone(&doc));
        let options = self.options;
        let rules_for = |uri: &str| rules_named(uri, options);
        let (base, _) = uri::split_fragment(base);
        self.index.visit(document, doc.root(), Parent::Document(base, rules), &rules_for, &options.limits)
    }

    /// The resource with this absolute URI. Loads its document or metaschema.
    fn resource(&mut self, uri: &str) -> Result<u32, String> {
        if let Some(found) = self.index.by_uri.get(uri.as_bytes()) {
            return Ok(found as u32);
        }
        let options = self.options;
        let rules = Rules::of(options.dialect);
        if let Some(text) = metaschema::text(uri) {
            // OK because the texts are constants, and tests parse them.
            let doc = Doc::parse(text.as_str()).unwrap_or_default();
            self.add(uri, Arc::new(doc), rules).map_err(|fault| fault.message)?;
        } else if let Some((_, doc)) = options.documents.iter().find(|(known, _)| known == uri) {
            self.add(uri, Arc::clone(doc), rules).map_err(|fault| fault.message)?;
        } else if !std::mem::replace(&mut self.has_all_documents, true) {
            for (known, doc) in &options.documents {
                if self.index.by_uri.get(known.as_bytes()).is_none() {
                    // OK to drop: the error is in a document without references to it.
                    let _ = self.add(known, Arc::clone(doc), rules);
                }
            }
        }
        let unknown = "names an unknown document; nothing is fetched";
        self.index.by_uri.get(uri.as_bytes()).map(|found| found as u32).ok_or_else(|| unknown.to_owned())
    }

    fn resolve(&mut self, keyword: Keyword, reference: &str, from: u32) -> Result<Target, String> {
        let (uri, fragment) = uri::split_fragment(reference);
        let absolute = uri::join(self.index.base(from), uri);
        let resource = self.resource(&absolute)?;
        // OK because `resource` returns ids of the list.
        let root = self.index.resources.get(resource as usize).map(|r| r.root).ok_or("is unknown")?;
        let fragment = match fragment {
            None | Some("") => "",
            Some(fragment) => fragment,
        };
        if fragment.is_empty() || fragment.starts_with('/') {
            let place = if fragment.is_empty() { root } else { self.follow(fragment, root, resource)? };
            let recursive = keyword == Keyword::RecursiveRef && self.is_dynamic(resource, RECURSIVE, place);
            // A pointer across the root of another resource is not the canonical one.
            let direct = self.index.places.get(place) == Some(resource);
            let pointer = direct.then(|| fragment.to_owned());
            return Ok(Target {
                place,
                pointer,
                anchor: None,
                dynamic: recursive.then(|| RECURSIVE.to_owned()),
            });
        }
        let place = self.index.anchor(resource, fragment).ok_or("names an unknown anchor")?;
        let dynamic = keyword == Keyword::DynamicRef && self.is_dynamic(resource, fragment, place);
        let anchor = fragment.to_owned();
        Ok(Target { place, pointer: None, dynamic: dynamic.then(|| anchor.clone()), anchor: Some(anchor) })
    }

    fn is_dynamic(&self, resource: u32, name: &str, place: Place) -> bool {
        self.index.is_dynamic(resource, name, place)
    }

    /// The place of a JSON Pointer in a fragment.
    fn follow(&mut self, fragment: &str, root: Place, mut resource: u32) -> Result<Place, String> {
        let doc = self.doc(root.document);
        let doc = &*doc;
        let pointer = uri::percent_decoded(fragment).ok_or("has an invalid percent escape")?;
        let mut at: Value<'_> = doc.at(root.node);
        let mut rest = pointer.as_str();
        while let Some(behind) = rest.strip_prefix('/') {
            let end = behind.find('/').map_or(rest.len(), |slash| slash + 1);
            let (token, next) = rest.split_at(end);
            at = self.step(doc, root.document, at, token).ok_or("has no target")?;
            rest = next;
            let place = Place { document: root.document, node: at.id() };
            if let Some(found) = self.index.places.get(place) {
                resource = found;
            }
        }
        let place = Place { document: root.document, node: at.id() };
        if self.index.places.get(place).is_none() {
            // Under an unknown keyword, only a reference makes a value a schema.
            let options = self.options;
            let rules_for = |uri: &str| rules_named(uri, options);
            let parent = Parent::Resource(resource);
            let visited = self.index.visit(root.document, at, parent, &rules_for, &options.limits);
            visited.map_err(|fault| format!("has a target that is not a schema: {}", fault.message))?;
        }
        Ok(place)
    }

    /// The value of a pointer's token. Members of large objects are found with an index.
    fn step<'d>(&mut self, doc: &'d Doc, document: u32, at: Value<'d>, token: &str) -> Option<Value<'d>> {
        if at.len() <= MAX_UNINDEXED || at.kind() != Kind::Object {
            return at.pointer(token);
        }
        let place = Place { document, node: at.id() };
        // The entry of the object alone marks it as indexed; member names follow a slash.
        let place = [place.document, place.node.index()];
        if self.members.get(&key(&place, "")).is_none() {
            self.members.enter(&key(&place, ""), 0);
            // Of members with the same name, the last one counts.
            for (name, value) in at.members().collect::<Vec<_>>().into_iter().rev() {
                let mut token = "/".to_owned();
                token.push_str(name);
                self.members.enter(&key(&place, &token), value.id().index().into());
            }
        }
        let node = self.members.get(&key(&place, &unescaped(token)))?;
        Some(doc.at(NodeId::new(node as u32)))
    }

    /// The dynamic scope after entering a resource in `scope`.
    pub(super) fn enter(&mut self, scope: u32, resource: u32) -> u32 {
        if self.dynamic_names.is_empty() {
            return 0;
        }
        if let Some(known) = self.entered.get(&key(&[scope, resource], "")) {
            return known as u32;
        }
        let mut bindings = self.scopes.get(scope as usize).cloned().unwrap_or_default();
        // Sorted, like every scope.
        let outer = bindings.len();
        let declared = self.index.resources.get(resource as usize).map_or(&[][..], |r| &r.dynamic);
        for (name, place) in declared {
            // The outermost declaration wins, so existing bindings stay.
            if self.dynamic_names.get(name.as_bytes()).is_some()
                && binding(bindings.get(..outer).unwrap_or_default(), name).is_none()
            {
                bindings.push((name.clone(), *place));
            }
        }
        // Of several anchors with one name in a resource, the first counts.
        sort(&mut bindings, |a, b| a.0.cmp(&b.0).then(a.1.node.cmp(&b.1.node)));
        bindings.dedup_by(|a, b| a.0 == b.0);
        let mut spelled = Vec::new();
        for (name, place) in &bindings {
            spelled.extend(key(&[name.len() as u32, place.document, place.node.index()], name));
        }
        // The outermost scope has no bindings and is the first.
        let next = if bindings.is_empty() { 0 } else { self.scopes.len() as u64 };
        let id = self.scope_ids.enter(&spelled, next);
        if id == self.scopes.len() as u64 {
            self.scopes.push(bindings);
        }
        self.entered.enter(&key(&[scope, resource], ""), id);
        id as u32
    }

    /// The target of a dynamic anchor in a scope.
    pub(super) fn bound(&self, scope: u32, name: &str) -> Option<Place> {
        binding(self.scopes.get(scope as usize)?, name)
    }
}

/// Finds a name among sorted bindings.
fn binding(bindings: &[(String, Place)], name: &str) -> Option<Place> {
    let at = bindings.binary_search_by(|(bound, _)| bound.as_str().cmp(name)).ok()?;
    bindings.get(at).map(|(_, place)| *place)
}

/// Decodes `~1` and `~0` in a token of a JSON Pointer (RFC 6901 §4).
fn unescaped(token: &str) -> String {
    let mut out = String::with_capacity(token.len());
    let mut rest = token.chars().peekable();
    while let Some(c) = rest.next() {
        let plain = match (c, rest.peek()) {
            ('~', Some('0')) => '~',
            ('~', Some('1')) => '/',
            _ => {
                out.push(c);
                continue;
            }
        };
        out.push(plain);
        rest.next();
    }
    out
}

/// The rules of a `$schema`: a known dialect, or a document of the caller with `$vocabulary`.
#[cold]
#[inline(never)]
fn rules_named(named: &str, options: &Options) -> Result<Rules, String> {
    if let Some(rules) = Rules::named(named) {
        return Ok(rules);
    }
    let unsupported = || {
        format!(
            "unsupported dialect {named:?}: expected https://json-schema.org/draft/2020-12/schema or draft-07"
        )
    };
    let (uri, _) = uri::split_fragment(named);
    let document = options
        .documents
        .iter()
        .find(|(known, doc)| known == uri || doc.root().get("$id").and_then(Value::as_str) == Some(uri));
    let metaschema = document.ok_or_else(unsupported)?.1.root();
    let parent = metaschema.get("$schema").and_then(Value::as_str).and_then(Rules::named);
    let mut rules = parent.ok_or_else(unsupported)?;
    let Some(vocabularies) = metaschema.get("$vocabulary") else { return Ok(rules) };
    rules.vocabularies = vocabulary::CORE;
    for (uri, required) in vocabularies.members() {
        let (folder, name) = uri.split_at(uri::last_slash(uri).map_or(0, |slash| slash + 1));
        let name = if folder.ends_with("/vocab/") { name } else { "" };
        rules.vocabularies |= match name {
            "core" => vocabulary::CORE,
            "applicator" => vocabulary::APPLICATOR,
            "unevaluated" => vocabulary::UNEVALUATED,
            "validation" => vocabulary::VALIDATION,
            "format-annotation" | "format" => vocabulary::FORMAT,
            "format-assertion" => {
                rules.format_assertion = true;
                vocabulary::FORMAT
            }
            "content" => vocabulary::CONTENT,
            "meta-data" => vocabulary::META,
            _ if required.as_bool() == Some(true) => {
                return Err(format!("the dialect {named:?} requires the unknown vocabulary {uri:?}"));
            }
            _ => 0,
        };
    }
    if rules.dialect == Dialect::Draft201909 {
        // In draft 2019-09 the unevaluated keywords belong to the applicators.
        rules.vocabularies |= vocabulary::UNEVALUATED;
    }
    Ok(rules)
}

/// Parse limits of a schema's text.
pub(super) fn parse_limits(limits: &SchemaLimits) -> ParseLimits {
    ParseLimits { bytes: limits.bytes, depth: limits.nesting, nodes: u32::MAX, unique_names: true }
}

//! Operations for keywords without subschemas, and for simple containers.
//!
//! Each method reads some keywords of one subschema and adds a few operations. Checks that every
//! value passes are omitted.
//!
//! Invariant: the first pass has checked every shape, so a value of another shape is skipped.

use std::cmp::Ordering;

use super::super::decimal::Decimal;
use super::super::format::Format;
use super::super::keyword::Keyword;
use super::super::program::{Array, Bounds, Contains, Dependent, Enum, MAX_LINEAR_TABLE, Op, Span};
use super::super::resources::Invalid;
use super::super::{Dialect, canon};
use super::{Compiler, Subschema, extend};
use crate::json::sort::sort;
use crate::json::{Kind, Value};

/// Length of a word from which on comparing it costs steps.
const LONG: usize = 256;

impl Compiler<'_> {
    /// Compiles the keywords without subschemas.
    pub(super) fn asserted(&mut self, schema: &Subschema<'_>, ops: &mut Vec<Op>) -> Result<(), Box<Invalid>> {
        if let Some((min, max)) = schema.range(Keyword::MinLength, Keyword::MaxLength) {
            ops.push(Op::Length { min, max });
        }
        if let Some((min, max)) = schema.range(Keyword::MinProperties, Keyword::MaxProperties) {
            ops.push(Op::Members { min, max });
        }
        self.bounds(schema, ops);
        if let Some(divisor) = schema.get(Keyword::MultipleOf) {
            let text = divisor.as_number().unwrap_or_default();
            if Decimal::new("1").is_multiple_of(Decimal::new(text)).is_none() {
                return Err(Invalid::new(schema.at(divisor), "a divisor of more than 37 digits"));
            }
            ops.push(Op::Multiple(self.t.keep(text)));
        }
        if let Some(value) = schema.get(Keyword::Const) {
            match value.as_str() {
                // Without escapes, the text is the string.
                Some(text) if text.len() + 2 == value.raw().len() && text.len() < LONG => {
                    ops.push(Op::Word(self.t.keep(value.raw())))
                }
                _ => self.members_of(&mut std::iter::once(value), value.raw(), "const", ops),
            }
        }
        if let Some(list) = schema.get(Keyword::Enum) {
            self.members_of(&mut list.items(), list.raw(), "enum", ops);
        }
        if self.asserts_formats(schema) {
            if let Some(format) =
                schema.text(Keyword::Format).and_then(|f| Format::named(f, schema.rules.dialect))
            {
                ops.push(Op::Format(format));
            }
        }
        if let Some(value) = schema.get(Keyword::Pattern) {
            let source = value.as_str().unwrap_or_default();
            let index = self.pattern(source, schema.at(value))?;
            ops.push(Op::Pattern(index));
        }
        Ok(())
    }

    fn bounds(&mut self, schema: &Subschema<'_>, ops: &mut Vec<Op>) {
        let keywords =
            [Keyword::Minimum, Keyword::ExclusiveMinimum, Keyword::Maximum, Keyword::ExclusiveMaximum];
        let found = keywords.map(|k| schema.get(k).and_then(Value::as_number));
        if found.iter().all(Option::is_none) {
            return;
        }
        let mut bounds = Bounds { low: i64::MIN, high: i64::MAX, texts: [Span::default(); 4] };
        for (i, text) in found.into_iter().enumerate() {
            let Some(text) = text else { continue };
            if let Some(slot) = bounds.texts.get_mut(i) {
                *slot = self.t.keep(text);
            }
            let (exclusive, is_low) = (i % 2 == 1, i < 2);
            // None: every 64-bit integer is out of bounds.
            match nearest_integer(Decimal::new(text), exclusive, is_low) {
                Some(n) if is_low => bounds.low = bounds.low.max(n),
                Some(n) => bounds.high = bounds.high.min(n),
                None => (bounds.low, bounds.high) = (i64::MAX, i64::MIN),
            }
        }
        ops.push(Op::Bounds(self.t.bounds.len() as u32));
        self.t.bounds.push(bounds);
    }

    /// Compiles an enum or const.
    #[cold]
    fn members_of<'d>(
        &mut self,
        values: &mut dyn Iterator<Item = Value<'d>>,
        text: &str,
        keyword: &'static str,
        ops: &mut Vec<Op>,
    ) {
        let (mut null, mut booleans) = (false, [false; 2]);
        let (mut words, mut numbers, mut forms) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            match value.kind() {
                Kind::Null => null = true,
                Kind::Bool => booleans[usize::from(value.as_bool() == Some(true))] = true,
                Kind::String => words.push(value.as_str().unwrap_or_default()),
                Kind::Number => numbers.push(value.raw()),
                Kind::Array | Kind::Object => {
                    let mut form = Vec::new();
                    canon::append(value, &mut form);
                    forms.push(form.into_boxed_slice());
                }
            }
        }
        let strings_only = !null && booleans == [false; 2] && numbers.is_empty() && forms.is_empty();
        let has_long = words.iter().any(|word| word.len() >= LONG);
        if words.len() > MAX_LINEAR_TABLE {
            sort(&mut words, |a, b| canon::compare_names(a.as_bytes(), b.as_bytes()));
        }
        sort(&mut numbers, |a, b| Decimal::new(a).compare(Decimal::new(b)));
        numbers.dedup_by(|a, b| Decimal::new(a).compare(Decimal::new(b)) == Ordering::Equal);
        sort(&mut forms, |a, b| a.cmp(b));
        let words = self.t.words(&words);
        if strings_only && keyword == "enum" && words.len > 0 && !has_long {
            ops.push(Op::Words(words));
            return;
        }
        let numbers = self.t.words(&numbers);
        let text = self.t.keep(text);
        ops.push(Op::Enum(self.t.enums.len() as u32));
        let forms = forms.into_boxed_slice();
        self.t.enums.push(Enum { words, null, booleans, numbers, forms, text, keyword });
    }

    pub(super) fn array(&mut self, schema: &Subschema<'_>, ops: &mut Vec<Op>) -> Result<(), Box<Invalid>> {
        let items = schema.get(Keyword::Items);
        let list = items.filter(|v| v.kind() == Kind::Array);
        let prefix = schema.get(Keyword::PrefixItems).or(list);
        let rest = match list {
            Some(_) => schema.get(Keyword::AdditionalItems),
            None => items,
        };
        if let (Some(_), Some(list)) = (schema.get(Keyword::PrefixItems), list) {
            let message = "an array of schemas in `items` beside `prefixItems`";
            return Err(Invalid::new(schema.at(list), message));
        }
        let size = schema.range(Keyword::MinItems, Keyword::MaxItems);
        if prefix.is_some() || rest.is_some() {
            let mut children = Vec::new();
            for value in prefix.into_iter().flat_map(Value::items) {
                children.push(self.child(schema, value)?);
            }
            let rest = match rest {
                Some(value) => Some(self.child(schema, value)?),
                None => None,
            };
            let prefix = extend(&mut self.t.children, &children);
            ops.push(Op::Array(self.t.arrays.len() as u32));
            let (min, max) = size.unwrap_or((0, u32::MAX));
            self.t.arrays.push(Array { min, max, prefix, rest, is_old: list.is_some() });
        } else if let Some((min, max)) = size {
            ops.push(Op::Items { min, max });
        }
        if schema.get(Keyword::UniqueItems).and_then(Value::as_bool) == Some(true) {
            ops.push(Op::Unique);
        }
        if let Some(value) = schema.get(Keyword::Contains) {
            let min = schema.get(Keyword::MinContains).map(count);
            let contains = Contains {
                child: self.child(schema, value)?,
                min: min.unwrap_or(1),
                max: schema.get(Keyword::MaxContains).map_or(u32::MAX, count),
                evaluates: schema.rules.dialect == Dialect::Draft202012,
                has_min: min.is_some(),
            };
            ops.push(Op::Contains(self.t.contains.len() as u32));
            self.t.contains.push(contains);
        }
        Ok(())
    }

    pub(super) fn dependents(
        &mut self,
        schema: &Subschema<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), Box<Invalid>> {
        let mut dependents = Vec::new();
        for (keyword, text) in [
            (Keyword::DependentRequired, "dependentRequired"),
            (Keyword::DependentSchemas, "dependentSchemas"),
            (Keyword::Dependencies, "dependencies"),
        ] {
            for (name, value) in schema.get(keyword).into_iter().flat_map(Value::members) {
                let name = self.t.keep(name);
                let mut required = Vec::new();
                let mut child = None;
                if value.kind() == Kind::Array {
                    required.extend(value.items().filter_map(Value::as_str));
                } else {
                    child = Some(self.child(schema, value)?);
                }
                let required = self.t.words(&required);
                dependents.push(Dependent { name, keyword: text, required, schema: child });
            }
        }
        if !dependents.is_empty() {
            ops.push(Op::Dependents(extend(&mut self.t.dependents, &dependents)));
        }
        Ok(())
    }
}

impl Subschema<'_> {
    /// The minimum and maximum of two keywords, if they exclude anything.
    fn range(&self, least: Keyword, most: Keyword) -> Option<(u32, u32)> {
        let min = self.get(least).map_or(0, count);
        let max = self.get(most).map_or(u32::MAX, count);
        (min > 0 || max < u32::MAX).then_some((min, max))
    }
}

/// A count; saturates at the width of the table.
fn count(value: Value<'_>) -> u32 {
    let n = Decimal::new(value.as_number().unwrap_or_default()).to_i64();
    n.map_or(u32::MAX, |n| u32::try_from(n).unwrap_or(u32::MAX))
}

/// The integer nearest to a bound on the allowed side, saturating.
fn nearest_integer(bound: Decimal<'_>, exclusive: bool, is_low: bool) -> Option<i64> {
    if let Some(n) = bound.to_i64() {
        return match (exclusive, is_low) {
            (false, _) => Some(n),
            (true, true) => n.checked_add(1),
            (true, false) => n.checked_sub(1),
        };
    }
    let floor = bound.floor();
    match (floor, is_low) {
        (Ok(n), true) => n.checked_add(1),
        (Ok(n), false) => Some(n),
        // Beyond 64 bits, all or no integers are allowed.
        (Err(Ordering::Less), true) => Some(i64::MIN),
        (Err(_), true) => None,
        (Err(Ordering::Less), false) => None,
        (Err(_), false) => Some(i64::MAX),
    }
}

//! Server card and catalog: descriptions of a server for clients that have not connected
//! (SEP-2127).

use crate::json::Json;
use crate::model::Identity;

use super::Eras;
use super::encode::{self, catalog};
use super::version::{self, V2026_07_28};

/// Media type of a card.
pub(crate) const CARD: &str = "application/mcp-server-card+json";
/// Media type of a catalog.
pub(crate) const CATALOG: &str = "application/ai-catalog+json";

const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";

/// Returns the card of a server with this reverse-DNS name at this URL.
pub(crate) fn card(name: &str, url: &str, identity: &Identity, eras: Eras) -> Json {
    encode::object(|w| {
        w.key("$schema").string(SCHEMA).key("name").string(name);
        w.key("version").string(&identity.version);
        catalog::optional(w, "title", &identity.title);
        catalog::optional(w, "description", &identity.description);
        catalog::optional(w, "websiteUrl", &identity.website);
        catalog::icons(w, version::features(V2026_07_28), &identity.icons);
        w.key("remotes").begin_array().begin_object();
        w.key("type").string("streamable-http").key("url").string(url);
        w.key("supportedProtocolVersions").begin_array();
        if eras.modern.is_some() {
            w.string(version::name(V2026_07_28));
        }
        if eras.legacy.is_some() {
            version::legacy().for_each(|date| _ = w.string(date));
        }
        w.end_array().end_object().end_array();
    })
}

/// Returns the catalog of a site with the card at this URL.
pub(crate) fn catalog(identifier: &str, url: &str) -> Json {
    encode::object(|w| {
        w.key("specVersion").string("1.0").key("entries").begin_array().begin_object();
        w.key("identifier").string(identifier).key("type").string(CARD).key("url").string(url);
        w.end_object().end_array();
    })
}

//! Tool descriptors as a catalog for the lint.

use std::borrow::Cow;

use super::catalog::Tool;
use crate::json::Writer;
use crate::lint::{Snapshot, Tools};

impl Tools for [Tool] {
    fn snapshot(&self) -> Cow<'_, Snapshot> {
        let mut w = Writer::new();
        w.begin_array();
        for tool in self {
            w.begin_object().key("name").string(&tool.name);
            for (name, text) in [("title", &tool.title), ("description", &tool.description)] {
                if let Some(text) = text {
                    w.key(name).string(text);
                }
            }
            w.key("inputSchema");
            match &tool.input_schema {
                Some(schema) => w.json(schema),
                // A server sends this for a tool without arguments.
                None => w.raw("{\"type\":\"object\"}"),
            };
            if let Some(schema) = &tool.output_schema {
                w.key("outputSchema").json(schema);
            }
            w.end_object();
        }
        w.end_array();
        Cow::Owned(Snapshot::of_array(&w.into_json()))
    }
}

impl<const N: usize> Tools for [Tool; N] {
    fn snapshot(&self) -> Cow<'_, Snapshot> {
        self.as_slice().snapshot()
    }
}

impl Tools for Vec<Tool> {
    fn snapshot(&self) -> Cow<'_, Snapshot> {
        self.as_slice().snapshot()
    }
}

impl Tools for Tool {
    fn snapshot(&self) -> Cow<'_, Snapshot> {
        Cow::Owned(std::slice::from_ref(self).snapshot().into_owned())
    }
}

//! Writing compared with serde_json and sonic-rs: a long text, and a short response.
//!
//! Each contender writes into a reused buffer. Ours writes the short response with calls; the
//! others write it from a value built before, which is the cheaper half of their work.

use crate::{Contender, corpus, measure};
use tinymcp::json::{Doc, Writer};

pub fn report() {
    println!(
        "\n{:<13} {:>9}  {:>10} {:>10} {:>10}   over serde  over sonic",
        "write, MB/s", "bytes", "ours", "serde_json", "sonic-rs"
    );
    let message = corpus::long_text();
    let doc = Doc::parse(&message).expect("valid");
    let text = doc.root().pointer("/result/content/0/text").and_then(|v| v.as_str()).expect("a text");
    line("text1m", text.len(), strings(text));
    line("answer", 150, answers());
}

fn line(name: &str, bytes: usize, mut contenders: Vec<Contender<'_>>) {
    let medians = measure(&mut contenders, bytes);
    let rate = |i: usize| bytes as f64 * 1000.0 / medians[i];
    println!(
        "{name:<13} {bytes:>9}  {:>10.0} {:>10.0} {:>10.0}   {:>9.2}x {:>10.2}x   {:.0} ns",
        rate(0),
        rate(1),
        rate(2),
        rate(0) / rate(1),
        rate(0) / rate(2),
        medians[0]
    );
}

fn strings(text: &str) -> Vec<Contender<'_>> {
    let mut ours = Vec::new();
    let mut serde = Vec::new();
    let mut sonic = Vec::new();
    vec![
        (
            "ours",
            Box::new(move || {
                let mut w = Writer::reuse(std::mem::take(&mut ours));
                w.string(text);
                ours = w.into_bytes();
                ours.len()
            }),
        ),
        (
            "serde_json",
            Box::new(move || {
                serde.clear();
                serde_json::to_writer(&mut serde, text).expect("writes");
                serde.len()
            }),
        ),
        (
            "sonic-rs",
            Box::new(move || {
                sonic.clear();
                sonic_rs::to_writer(&mut sonic, text).expect("writes");
                sonic.len()
            }),
        ),
    ]
}

fn answers() -> Vec<Contender<'static>> {
    let mut ours = Vec::new();
    let mut serde = Vec::new();
    let mut sonic = Vec::new();
    let mut w = Writer::new();
    answer(&mut w);
    let serde_value: serde_json::Value = serde_json::from_str(w.as_str()).expect("valid");
    let sonic_value: sonic_rs::Value = sonic_rs::from_str(w.as_str()).expect("valid");
    vec![
        (
            "ours",
            Box::new(move || {
                let mut w = Writer::reuse(std::mem::take(&mut ours));
                answer(&mut w);
                ours = w.into_bytes();
                ours.len()
            }),
        ),
        (
            "serde_json",
            Box::new(move || {
                serde.clear();
                serde_json::to_writer(&mut serde, &serde_value).expect("writes");
                serde.len()
            }),
        ),
        (
            "sonic-rs",
            Box::new(move || {
                sonic.clear();
                sonic_rs::to_writer(&mut sonic, &sonic_value).expect("writes");
                sonic.len()
            }),
        ),
    ]
}

fn answer(w: &mut Writer) {
    w.begin_object().key("jsonrpc").string("2.0").key("id").u64(1_234_567).key("result").begin_object();
    w.key("content").begin_array().begin_object().key("type").string("text");
    w.key("text").string("register 0xF7 reads \"81\" after 3 tries\n").end_object().end_array();
    w.key("isError").bool(false).key("tries").i64(-3).end_object().end_object();
}

//! Texts of the benchmark, generated from a seed.
//!
//! Four are MCP messages. Three have the shape of common files of JSON benchmarks: the mix of
//! kinds, nesting, lengths, indentation and scripts is the same, the contents are invented.
//!
//! # Invariants
//! - Every text is one valid JSON value, and the same on every machine.

use crate::random::Random;

pub struct Corpus {
    pub name: &'static str,
    /// True for a protocol message, to which the target for messages applies.
    pub message: bool,
    /// Generates the text.
    pub text: fn() -> String,
}

pub fn all() -> Vec<Corpus> {
    let corpus = |name, message, text: fn() -> String| Corpus { name, message, text };
    vec![
        corpus("call", true, call),
        corpus("list100", true, list),
        corpus("text1m", true, long_text),
        corpus("blob1m", true, blob),
        corpus("twitter-like", false, twitter),
        corpus("citm-like", false, citm),
        corpus("canada-like", false, canada),
    ]
}

fn call() -> String {
    concat!(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read_sensor","#,
        r#""arguments":{"bus":"i2c-1","address":118,"register":"0xF7","count":3},"#,
        r#""_meta":{"progressToken":"p-7"}}}"#
    )
    .to_owned()
}

const WORDS: &[&str] = &[
    "reads", "the", "value", "of", "a", "register", "on", "this", "bus", "and", "returns", "it", "as",
    "number", "when", "device", "answers", "within", "deadline", "path", "file", "line", "unit", "optional",
    "default", "maximum", "seconds", "bytes", "name", "state",
];

const JAPANESE: &[&str] = &[
    "今日は",
    "とても",
    "天気が",
    "いい",
    "です",
    "ね",
    "電車",
    "待って",
    "いる",
    "明日",
    "会議",
    "資料",
    "作る",
    "猫",
    "写真",
    "ありがとう",
    "ございます",
    "東京",
    "駅前",
    "新しい",
    "店",
];

fn words(r: &mut Random, from: &[&str], count: usize, between: &str) -> String {
    let mut text = String::new();
    for i in 0..count {
        if i > 0 {
            text.push_str(between);
        }
        text.push_str(r.pick(from));
    }
    text
}

/// Response to tools/list, compact, as servers send it.
fn list() -> String {
    let mut r = Random::new(1);
    let mut text = String::from(r#"{"jsonrpc":"2.0","id":2,"result":{"tools":["#);
    for i in 0..100 {
        if i > 0 {
            text.push(',');
        }
        let description = words(&mut r, WORDS, 14, " ");
        text.push_str(&format!(
            r#"{{"name":"tool_{i}","title":"Tool {i}","description":"{description}.","inputSchema":{{"type":"object","properties":{{"#
        ));
        let properties = 2 + r.below(4);
        for p in 0..properties {
            if p > 0 {
                text.push(',');
            }
            let about = words(&mut r, WORDS, 7, " ");
            text.push_str(&match r.below(3) {
                0 => format!(r#""text_{p}":{{"type":"string","description":"{about}","maxLength":256}}"#),
                1 => format!(
                    r#""count_{p}":{{"type":"integer","description":"{about}","minimum":0,"maximum":65535}}"#
                ),
                _ => format!(r#""mode_{p}":{{"enum":["fast","slow","off"],"description":"{about}"}}"#),
            });
        }
        text.push_str(r#"},"required":["text_0"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#);
    }
    text.push_str("]}}");
    text
}

/// Tool result of one MiB: log lines with occasional quotes, paths and other scripts.
pub fn long_text() -> String {
    let mut r = Random::new(2);
    let mut text = String::from(r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":""#);
    while text.len() < 1 << 20 {
        let line = words(&mut r, WORDS, 12, " ");
        let at = r.below(100_000);
        text.push_str(&match r.below(20) {
            0 => format!(r#"{at} said \"{line}\" and left\n"#),
            1 => format!(r"{at} C:\\logs\\{line}\n"),
            2 => format!(r"{at} {} {line}\n", words(&mut r, JAPANESE, 6, "")),
            _ => format!(r"{at} {line}\n"),
        });
    }
    text.push_str(r#""}],"isError":false}}"#);
    text
}

/// Tool result with an image of one MiB as base64.
fn blob() -> String {
    let mut r = Random::new(6);
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from(
        r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"image","mimeType":"image/png","data":""#,
    );
    while text.len() < 1 << 20 {
        text.push(char::from(digits[r.below(64)]));
    }
    text.push_str(r#""}],"isError":false}}"#);
    text
}

/// Pretty printer for the shapes below, with an indentation of `step`.
struct Pretty {
    text: String,
    step: usize,
    depth: usize,
    fresh: bool,
}

impl Pretty {
    fn new(step: usize) -> Pretty {
        Pretty { text: String::new(), step, depth: 0, fresh: true }
    }

    fn line(&mut self) {
        if self.depth > 0 {
            self.text.push_str(if self.fresh { "\n" } else { ",\n" });
            self.text.push_str(&" ".repeat(self.step * self.depth));
        }
        self.fresh = false;
    }

    fn open(&mut self, name: Option<&str>, bracket: char) {
        self.item(name, &bracket.to_string());
        self.depth += 1;
        self.fresh = true;
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if !self.fresh {
            self.text.push('\n');
            self.text.push_str(&" ".repeat(self.step * self.depth));
        }
        self.text.push(bracket);
        self.fresh = false;
    }

    fn item(&mut self, name: Option<&str>, value: &str) {
        self.line();
        if let Some(name) = name {
            self.text.push_str(&format!("\"{name}\": "));
        }
        self.text.push_str(value);
    }

    fn member(&mut self, name: &str, value: &str) {
        self.item(Some(name), value);
    }

    fn string(&mut self, name: &str, value: &str) {
        self.item(Some(name), &format!("\"{value}\""));
    }
}

/// Search results of a social network: many short members, Japanese text, escaped slashes.
fn twitter() -> String {
    let mut r = Random::new(3);
    let mut p = Pretty::new(2);
    p.open(None, '{');
    p.open(Some("statuses"), '[');
    for _ in 0..100 {
        status(&mut p, &mut r, 1);
    }
    p.close(']');
    p.open(Some("search_metadata"), '{');
    p.member("completed_in", "0.087");
    p.member("count", "100");
    p.close('}');
    p.close('}');
    p.text
}

fn status(p: &mut Pretty, r: &mut Random, nested: usize) {
    let id = 505_874_000_000_000_000 + r.below(900_000_000);
    p.open(None.filter(|_: &&str| nested == 0), '{');
    status_members(p, r, id);
    if nested > 0 && r.below(3) > 0 {
        p.open(Some("retweeted_status"), '{');
        let id = id - 77;
        status_members(p, r, id);
        p.close('}');
    }
    p.close('}');
}

fn status_members(p: &mut Pretty, r: &mut Random, id: usize) {
    p.open(Some("metadata"), '{');
    p.string("result_type", "recent");
    p.string("iso_language_code", "ja");
    p.close('}');
    p.string("created_at", "Sun Aug 31 00:29:15 +0000 2014");
    p.member("id", &id.to_string());
    p.string("id_str", &id.to_string());
    let count = 12 + r.below(14);
    let mut said = words(r, JAPANESE, count, "");
    if r.below(3) == 0 {
        said.push_str(r"\n\nhttp:\/\/t.co\/AbCdEf");
    }
    p.string("text", &format!("@user_{} {said}", r.below(1000)));
    p.string(
        "source",
        r#"<a href=\"http:\/\/twitter.example\/download\" rel=\"nofollow\">Client for phones<\/a>"#,
    );
    p.member("truncated", "false");
    for name in [
        "in_reply_to_status_id",
        "in_reply_to_status_id_str",
        "in_reply_to_user_id",
        "in_reply_to_screen_name",
    ] {
        p.member(name, "null");
    }
    p.open(Some("user"), '{');
    let user = 1_000_000_000 + r.below(1_000_000_000);
    p.member("id", &user.to_string());
    p.string("id_str", &user.to_string());
    p.string("name", &words(r, JAPANESE, 2, ""));
    p.string("screen_name", &format!("user_{}", r.below(100_000)));
    p.string("location", "");
    let about = 10 + r.below(16);
    p.string("description", &words(r, JAPANESE, about, ""));
    p.member("url", "null");
    p.open(Some("entities"), '{');
    p.open(Some("description"), '{');
    p.open(Some("urls"), '[');
    p.close(']');
    p.close('}');
    p.close('}');
    p.member("protected", "false");
    for name in ["followers_count", "friends_count", "listed_count", "favourites_count"] {
        let count = r.below(3000);
        p.member(name, &count.to_string());
    }
    p.string("created_at", "Tue Jul 16 13:14:03 +0000 2013");
    p.member("utc_offset", "null");
    p.member("geo_enabled", "false");
    p.member("verified", "false");
    p.string("lang", "en");
    p.string("profile_background_color", "C0DEED");
    for name in ["profile_background_image_url", "profile_image_url", "profile_banner_url"] {
        let url = format!(
            r"http:\/\/pbs.example.com\/profile_images\/{}\/VkHm1FM8_normal.jpeg",
            r.below(1_000_000_000)
        );
        p.string(name, &url);
    }
    p.string("profile_link_color", "0084B4");
    p.member("profile_use_background_image", "true");
    p.member("default_profile", "true");
    p.member("following", "false");
    p.close('}');
    for name in ["geo", "coordinates", "place", "contributors"] {
        p.member(name, "null");
    }
    let retweets = r.below(100);
    p.member("retweet_count", &retweets.to_string());
    p.member("favorite_count", "0");
    p.open(Some("entities"), '{');
    p.open(Some("hashtags"), '[');
    p.close(']');
    p.open(Some("user_mentions"), '[');
    for _ in 0..r.below(3) {
        p.open(None, '{');
        p.string("screen_name", &format!("user_{}", r.below(100_000)));
        p.string("name", &words(r, JAPANESE, 2, ""));
        p.member("id", &user.to_string());
        p.string("id_str", &user.to_string());
        p.open(Some("indices"), '[');
        p.item(None, "0");
        p.item(None, "11");
        p.close(']');
        p.close('}');
    }
    p.close(']');
    p.close('}');
    p.member("favorited", "false");
    p.member("retweeted", "false");
    p.string("lang", "ja");
}

/// Catalogue of concerts: deep indentation, names that are numbers, integers and nulls.
fn citm() -> String {
    let mut r = Random::new(4);
    let mut p = Pretty::new(4);
    p.open(None, '{');
    p.open(Some("areaNames"), '{');
    for i in 0..400 {
        p.string(&(205_705_993 + i).to_string(), "Arrière-scène central");
    }
    p.close('}');
    p.open(Some("events"), '{');
    for i in 0..180 {
        let id = (138_586_341 + i * 4).to_string();
        p.open(Some(&id), '{');
        p.member("description", "null");
        p.member("id", &id);
        p.member("logo", if i % 3 == 0 { "null" } else { "\"/images/UE0AAAAACEKo6QAAAAZDSVRN\"" });
        p.string("name", "30th Anniversary Tour");
        p.open(Some("subTopicIds"), '[');
        p.item(None, "337184269");
        p.item(None, "337184283");
        p.close(']');
        p.member("subjectCode", "null");
        p.member("subtitle", "null");
        p.open(Some("topicIds"), '[');
        p.item(None, "324846099");
        p.item(None, "107888604");
        p.close(']');
        p.close('}');
    }
    p.close('}');
    p.open(Some("performances"), '[');
    for i in 0..243 {
        p.open(None, '{');
        p.member("eventId", &(138_586_341 + i).to_string());
        p.member("id", &(339_887_544 + i).to_string());
        p.member("logo", "null");
        p.member("name", "null");
        p.open(Some("prices"), '[');
        for _ in 0..1 + r.below(4) {
            p.open(None, '{');
            p.member("amount", &(9025 * (1 + r.below(20))).to_string());
            p.member("audienceSubCategoryId", "337100890");
            p.member("seatCategoryId", &(338_937_295 + r.below(50)).to_string());
            p.close('}');
        }
        p.close(']');
        p.open(Some("seatCategories"), '[');
        for _ in 0..1 + r.below(5) {
            p.open(None, '{');
            p.open(Some("areas"), '[');
            for _ in 0..2 + r.below(14) {
                p.open(None, '{');
                p.member("areaId", &(205_705_993 + r.below(400)).to_string());
                p.open(Some("blockIds"), '[');
                p.close(']');
                p.close('}');
            }
            p.close(']');
            p.member("seatCategoryId", &(338_937_295 + r.below(50)).to_string());
            p.close('}');
        }
        p.close(']');
        p.member("seatMapImage", "null");
        p.member("start", "1372701600000");
        p.string("venueCode", "PLEYEL_PLEYEL");
        p.close('}');
    }
    p.close(']');
    p.close('}');
    p.text
}

/// Outlines of a country: pairs of coordinates with 15 digits and more, no whitespace.
fn canada() -> String {
    let mut r = Random::new(5);
    let mut text = String::from(
        r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"name":"Canada"},"geometry":{"type":"Polygon","coordinates":["#,
    );
    for ring in 0..480 {
        text.push_str(if ring > 0 { ",[" } else { "[" });
        for point in 0..20 + r.below(190) {
            if point > 0 {
                text.push(',');
            }
            let west = 52 + r.below(88);
            let north = 42 + r.below(41);
            let (a, b) = (r.next() % 10_u64.pow(15), r.next() % 10_u64.pow(15));
            text.push_str(&format!("[-{west}.{a:015},{north}.{b:015}]"));
        }
        text.push(']');
    }
    text.push_str("]}}]}");
    text
}

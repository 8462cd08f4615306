//! Tests of writing: exact texts, and reading what was written.

use tinymcp::json::ToJson;
use tinymcp::{json, record};

use super::{Every, Level, Nothing, Place, Switch, Unit};

#[test]
fn none_is_absent_in_records_and_null_elsewhere() {
    record! {
        struct Sparse {
            a: Option<u8>,
            b: Vec<Option<u8>>,
            c: Option<Vec<u8>>,
        }
    }
    let sparse = Sparse { a: None, b: vec![None, Some(1)], c: Some(Vec::new()) };
    assert_eq!(sparse.to_json().as_str(), r#"{"b":[null,1],"c":[]}"#);
    assert_eq!(Nothing {}.to_json().as_str(), "{}");
    assert_eq!(json!([Level::Low, Unit::Kelvin]).as_str(), r#"["low","Kelvin"]"#);
}

/// Seeded random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn text(&mut self) -> String {
        let chars = ['a', '"', '\\', '\n', '\u{1}', 'é', '√', '\u{1F600}', '/', '~'];
        (0..self.below(6)).map(|_| chars[self.below(10) as usize]).collect()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
        (self.next() % 2 == 0).then(|| make(self))
    }

    fn some<T>(&mut self, from: u64, to: u64, mut make: impl FnMut(&mut Random) -> T) -> Vec<T> {
        let count = from + self.below(to - from + 1);
        (0..count).map(|_| make(self)).collect()
    }

    fn place(&mut self) -> Place {
        Place { room: format!("r{}", self.text()), height: self.below(13_500) as f64 / 1000.0 - 1.5 }
    }

    fn every(&mut self) -> Every {
        let n = self.next();
        let small = |random: &mut Random| (random.below(81) as i32) - 40;
        Every {
            a: n as i8,
            b: n as i16,
            c: n as i32,
            d: n as i64,
            e: n as u8,
            f: n as u16,
            g: n as u32,
            h: n,
            i: n as f32 / 3.0,
            j: n as f64 / 7.0,
            k: n & 1 == 0,
            l: self.text(),
            m: json!([self.text(), { "a": (self.next()) }]),
            n: self.some(0, 5, |random| random.maybe(small)),
            o: self
                .some(1, 2, |random| random.some(0, 3, Random::place))
                .into_iter()
                .enumerate()
                .map(|(i, places)| (format!("k{i}/~"), places))
                .collect(),
            p: self.maybe(|random| random.some(2, 2, |random| 0.5 + random.below(9) as f64)),
            q: self.next(),
            r#type: if n & 2 == 0 { Unit::Celsius } else { Unit::Kelvin },
            s: self.next() as i64,
            t: self.maybe(|random| json!(random.below(5))),
            u: self.below(1000) as f32 / 10_000.0,
            v: self.some(0, 3, |random| random.some(0, 9, |random| random.below(10) as u8)),
            w: self.text(),
            x: Nothing {},
        }
    }
}

#[test]
fn random_values_survive_writing_and_reading() {
    let mut random = Random(20_261_120);
    for round in 0..2000 {
        let every = random.every();
        let text = every.to_json();
        let back = record::decode::<Every>(text.to_doc().root());
        assert_eq!(back.as_ref(), Ok(&every), "round {round}: {text}");
        let switch = Switch {
            pin: random.below(28) as u8,
            level: if random.below(2) == 0 { Level::Low } else { Level::High },
            hold: random.maybe(|random| 1 + random.below(60_000) as u32),
            note: random.text(),
            tags: random.some(0, 2, |_| "ab".to_owned()),
            at: random.place(),
            before: random.maybe(Random::place),
            dry_run: random.below(2) == 0,
        };
        let text = switch.to_json();
        let back = record::decode::<Switch>(text.to_doc().root());
        assert_eq!(back.as_ref(), Ok(&switch), "round {round}: {text}");
    }
}

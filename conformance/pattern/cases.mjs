// Patterns and texts with the verdicts of V8: written ones from schemas in use, then generated
// ones. Arguments: number of generated patterns, and the seed.
const count = Number(process.argv[2] ?? 20000);
let seed = Number(process.argv[3] ?? 1) >>> 0;

// mulberry32: the same cases for the same seed on all machines.
const random = () => {
  seed = (seed + 0x6d2b79f5) >>> 0;
  let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const hex = (text) => Buffer.from(text, "utf8").toString("hex");

const letters = ["a", "b", "A", "1", "_", "-", " ", ".", "é", "ß", "😀", "\u2028", "\n", "\uFEFF", "日", "\u00a0", "]", "{", "}", "/"];
const literal = () => {
  const c = pick(["a", "a", "b", "b", "A", "1", "_", "é", "😀", "日"]);
  return c;
};
const escapes = ["\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\n", "\\t", "\\x61", "\\u0062", "\\u{61}", "\\u{1F600}", "\\ud83d\\ude00", "\\.", "\\/", "\\-", "\\_", "\\{", "\\]", "\\0", "\\cJ", "\\p{L}", "\\P{L}", "\\p{Lu}", "\\p{Script=Greek}", "\\$", "\\ ", "\\é", "\\a", "\\Z", "\\u12", "\\x1", "\\c1", "\\e", "\\:", "\\@"];
const item = () => {
  const r = below(10);
  if (r < 5) return literal();
  if (r < 6) return pick(["a-b", "a-z", "A-Z", "0-9", "b-a", "é-日", "\\u{1F600}-\\u{1F64F}", "a-\\d", "\\w-.", "\\d-a"]);
  if (r < 9) return pick(escapes.slice(0, 26));
  return pick(["-", "^", ".", "$", "|", "(", "[", "\\b", "&&", "--", "\\^", "\\\\", "\\[", "\\ud83d", "\\uD800-\\uDFFF"]);
};
const klass = () => "[" + pick(["", "", "^"]) + Array.from({ length: below(4) }, item).join("") + "]";
const quantifier = () => pick(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}", "{0}", "*?", "+?", "??", "{2,3}?", "{,3}", "{", "{a}", "{2,1}"]);
let names = 0;
const atom = (depth) => {
  const r = below(depth > 0 ? 20 : 12);
  if (r < 6) return literal();
  if (r < 7) return ".";
  if (r < 9) return klass();
  if (r < 11) return pick(escapes);
  if (r < 12) return pick(["]", "}", "{", "/", "-", ","]);
  if (r < 14) return "(?:" + alternatives(depth - 1) + ")";
  if (r < 16) return "(" + alternatives(depth - 1) + ")";
  if (r < 17) return pick(["(?<n" + names++ + ">", "(?<é" + names++ + ">", "(?<", "(?"]) + alternatives(depth - 1) + ")";
  return pick(["(?=", "(?!", "(?=", "(?!", "(?=", "(?!", "(?<=", "(?<!"]) + alternatives(depth - 1) + ")";
};
const term = (depth) => {
  const r = below(30);
  if (r < 2) return pick(["^", "$"]);
  if (r < 4) return pick(["\\b", "\\B", "\\b", "\\1", "\\k<n0>"]);
  const a = atom(depth);
  return below(3) === 0 ? a + quantifier() : a;
};
const sequence = (depth) => Array.from({ length: below(5) }, () => term(depth)).join("");
const alternatives = (depth) => Array.from({ length: 1 + (below(4) === 0 ? 1 + below(2) : 0) }, () => sequence(depth)).join("|");
const whole = () => {
  names = 0;
  const r = below(6);
  if (r < 3) return alternatives(3);
  if (r < 4) return "^" + alternatives(3) + "$";
  // Lookaheads with and without the anchor that allows them.
  const heads = Array.from({ length: 1 + below(3) }, () => pick(["(?=", "(?!"]) + pick(["", ".*", "^", "[^]*"]) + sequence(1) + ")").join("");
  return pick(["^", "^", ""]) + heads + pick(["^", "", "", ""]) + alternatives(2) + pick(["$", "$", ""]);
};
const someText = () => Array.from({ length: below(9) }, () => (below(3) ? pick(["a", "b", "A", "1"]) : pick(letters))).join("");

const written = [
  ["^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "a.b", "my-pod.svc", "-a", "a-", "A"],
  ["^(?=.*[A-Z])(?=.*\\d).{8,}$", "Passw0rdd", "password1", "PASSWORD", "Pw1", "A1\n345678"],
  ["^(?=.*[a-z])(?=.*[A-Z])(?=.*\\d)(?=.*[^\\w\\s]).{8,64}$", "aA1!aaaa", "aA1aaaaa", "aA1! aaa"],
  ["^(?!\\.)(?!.*\\.\\.)[A-Za-z0-9.]+(?<!\\.)$", "a.b"],
  ["^(?!\\.)(?!.*\\.\\.).+$", "a.b", "a..b", ".a", "a."],
  ["^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?([.,\\d]+S)?)?)$", "P3W", "P1Y2M", "PT1H", "P", "PT", "P1YT", "P1YT1S", "P1W2D", "PT.5S", "PT1M,5S"],
  ["^(?=.{1,253}\\.?$)(?:(?!-)[a-zA-Z0-9-]{1,63}(?<!-)\\.?)+$", "a"],
  ["^(?=.{1,253}\\.?$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\\.[a-z0-9](?:[-0-9a-z]{0,61}[0-9a-z])?)*\\.?$", "a.b.", "a-.b", "a".repeat(64), "a." .repeat(120), "a.".repeat(130)],
  ["^[0-9a-fA-F]{8}\\b-[0-9a-fA-F]{4}\\b-[0-9a-fA-F]{4}\\b-[0-9a-fA-F]{4}\\b-[0-9a-fA-F]{12}$", "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b-12d3-a456-426614174000"],
  ["^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$", "123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"],
  ["^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$", "a@b.cc", "a.b@b.cc", "a..b@b.cc", ".a@b.cc", "a.@b.cc", "a@b"],
  ["^(\\p{Extended_Pictographic}|\\p{Emoji_Component})+$", "😀", "a", "👨‍👩‍👧"],
  ["^(?=[\\s\\S]*[\\p{Extended_Pictographic}])[\\p{Extended_Pictographic}\\p{Emoji_Component}\\u200d]+$", "😀", "1", "1😀"],
  ["^\\+?[1-9]\\d{1,14}$", "+15551234567", "0123"],
  ["^https?://[^\\s/$.?#].[^\\s]*$", "http://a.b", "http:// a", "ftp://a"],
  ["^/(?:[^/]+/)*[^/]*$", "/a/b", "a", "//", "/"],
  ["^(?!/)(?!.*//)(?!.*\\.\\.)[\\w./-]+(?<!/)$", "a"],
  ["^(?!/)(?!.*//)(?!.*(?:^|/)\\.\\.(?:/|$))[\\w./-]+$", "a/b", "/a", "a//b", "a/../b", "a/..b", "..", "a/.."],
  ["^(?!.*@\\{)(?!.*[ ~^:?*\\[\\\\])(?!/)(?!.*//)(?!.*\\.lock$).+$", "main", "a.lock", "a b", "x@{y"],
  ["^(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d)?$", "23:59", "24:00", "00:00:59"],
  ["^#(?:[0-9a-fA-F]{3}){1,2}$", "#fff", "#ffffff", "#ffff"],
  ["^v?(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-((?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\\.(?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\\+([0-9a-zA-Z-]+(?:\\.[0-9a-zA-Z-]+)*))?$", "1.2.3", "1.0.0-alpha.1+x", "01.2.3"],
  ["[\\w-.]+", "a.b", "!"],
  ["^[^\\uD800-\\uDFFF]*$", "a😀", ""],
  ["^x-", "x-a", "X-a", "ax-"],
  ["^.*$", "a", "a\nb", ""],
  ["^[\\s\\S]{1,280}$", "a\nb", "", "😀".repeat(280), "😀".repeat(281)],
  ["^\\S(.*\\S)?$", "a b", " a", "a\u2003"],
  ["^\\s*$", " \t\u00a0\ufeff\u2003\u180e", "\u180e", "\u2028\u3000\u1680\u202f\u205f\u0085"],
  ["^[^<>:\"/\\\\|?*\\x00-\\x1F]*[^<>:\"/\\\\|?*\\x00-\\x1F\\ .]$", "a.txt", "a.", "a:b"],
  ["^(?i)a$", "a"], ["a++", "a"], ["\\Aa\\z", "a"], ["(a)\\1", "aa"], ["^*", ""], ["a{1001}", "a".repeat(1001)],
  ["(?=a)*b", "b"], ["(?!a)+b", "b"], ["\\p{letter}", "a"], ["\\p{Greek}", "α"], ["\\p{L", "a"], ["\\pL", "a"],
  ["^\\p{Lu}\\p{Ll}*$", "Éa", "éa"], ["\\p{ASCII}", "a", "é"], ["\\p{Any}", "a", ""], ["[\\p{L}\\d]+$", "é1", "!"],
  ["\\p{gc=Nd}", "१", "a"], ["\\p{General_Category=Decimal_Number}", "१"], ["\\p{sc=Cyrl}", "я", "a"], ["\\p{scx=Deva}", "।", "a"],
  ["(?<year>\\d{4})-(?<month>\\d{2})", "2020-12"], ["(?<1a>b)", "b"], ["(?<>b)", "b"],
];

const lines = [];
const compiles = (source, flags) => {
  try { return new RegExp(source, flags); } catch { return null; }
};
const beyond = (t) => /[\u{10000}-\u{10ffff}]/u.test(t);
// Replaces constructs that only u supports by letters.
const plainer = (s) =>
  s.replace(/\\u\{1F600\}-\\u\{1F64F\}/g, "\\w").replace(/\\u\{1F600\}|\\ud83d\\ude00|😀/gu, "\uffff").replace(/\\u\{61\}/g, "a").replace(/\\p\{[\w=]+\}/gi, "\\w");
const emit = (source, texts) => {
  let regex = compiles(source, "u"), taken = "u", fit = texts;
  if (!regex && (regex = compiles(source, ""))) {
    taken = "p";
    // Without u, a character beyond U+FFFF is two characters, and \p{…} and \u{…} are letters: not
    // compared.
    fit = plainer(source) === source ? texts.filter((t) => !beyond(t)) : [];
  } else if (!regex) {
    // A pattern with both extensions: accepting it is right, but V8 has no verdicts.
    taken = compiles(plainer(source), "") ? "p" : "x";
    fit = [];
  }
  const verdicts = fit.flatMap((t) => {
    const found = regex.exec(t);
    // V8 also tries positions between the halves of a pair, which ECMA-262 does not have with u.
    if (found && /^[\udc00-\udfff]/.test(t.slice(found.index)) && /[\ud800-\udbff]$/.test(t.slice(0, found.index))) return [];
    return [(found ? "+" : "-") + hex(t)];
  });
  lines.push([taken, hex(source), ...verdicts].join("\t"));
  if (lines.length > 1000) process.stdout.write(lines.splice(0).join("\n") + "\n");
};
for (const [source, ...texts] of written) {
  const more = texts.flatMap((t) => [t + "\n", " " + t, t.toUpperCase(), t.slice(1), t.slice(0, -1), t + t]);
  emit(source, [...texts, ...more, ...Array.from({ length: 20 }, someText)].map((t) => t.toWellFormed?.() ?? Buffer.from(t, "utf8").toString("utf8")));
}
for (let n = 0; n < count; n++) emit(whole(), Array.from({ length: 12 }, someText));
process.stdout.write(lines.join("\n") + "\n");

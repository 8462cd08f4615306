// Written part of the corpus: families of schemas, each crossed with values that distinguish them.
// The tools of benches/schema/tools.json are added, with mutations of their values.

const scalars = [null, true, false, 0, 1, -1, 1.0, 1.5, 3, 100, '', 'a', 'ab', 'abc', 'été', '\u{1F600}\u{1F600}', '2026-01-31'];
const arrays = [[], [1], [1, 1], [1, 2], ['a', 'b'], [1, 'a', null], [[1], [1]], [{ a: 1 }, { a: 1 }], [1, 2, 3, 4], [null, 5, 'x'], [0, false], [1, true]];
const objects = [{}, { a: 1 }, { a: 'x' }, { b: 1 }, { a: 1, b: 2 }, { a: 1, b: 'x', c: null }, { A: 1 }, { aa: 1 }, { a: { a: 1 } }, { 'a/b': 1 }, { a: [1, 'x'] }, { x1: 1, x2: 'y' }];
const all = [...scalars, ...arrays, ...objects];

export const families = {
  type: {
    schemas: [...['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'].map((type) => ({ type })), { type: ['string', 'null'] }, { type: ['integer', 'object', 'boolean'] }, true, false, {}],
    values: all,
  },
  numbers: {
    schemas: [{ minimum: 1 }, { maximum: 1 }, { exclusiveMinimum: 1 }, { exclusiveMaximum: 1 }, { minimum: 0, exclusiveMaximum: 3 }, { multipleOf: 2 }, { multipleOf: 0.5 }, { minimum: -0.5, maximum: 1.25 }, { type: 'integer', minimum: 1 }],
    values: [...scalars, -3, 2, 2.5, 1e3, 1e-7, -0.5, 1.25, 99, [], {}],
  },
  strings: {
    schemas: [{ minLength: 1 }, { maxLength: 2 }, { minLength: 2, maxLength: 3 }, { maxLength: 0 }, { type: 'string', minLength: 3 }],
    values: [...scalars, 'abcd', '\u{1F600}', 'e\u0301'],
  },
  patterns: {
    schemas: ['^a', 'b$', '^[a-z]+$', '^(a|bc)*$', '^\\d{3}-\\d{4}$', '\\w\\s\\w', '^.{2}$', '[^\\x00-\\x7f]', '^\\p{L}+$', '^[\\w.+-]+@[\\w-]+\\.[\\w.]+$', '^$', 'a{2,3}', '\\bword\\b', '^(?:[01]\\d|2[0-3]):[0-5]\\d$'].map((pattern) => ({ pattern })),
    values: ['', 'a', 'b', 'ab', 'abc', 'aa', 'aaaa', 'bcbc', '555-1234', 'a b', 'été', '\u{1F600}a', 'some.one@example.org', 'a word here', 'swords', '23:59', '24:00', 5, null],
  },
  equality: {
    schemas: [{ const: 1 }, { const: 'a' }, { const: null }, { const: [1, 2] }, { const: { a: 1, b: 2 } }, { const: false }, { const: 0 }, { enum: ['a', 'b', 'abc'] }, { enum: [1, 'a', null, true] }, { enum: [[1], { a: 1 }] }, { enum: ['2026-01-31', ''] }, { enum: [1.5, 100, -1] }],
    values: [...all, { b: 2, a: 1 }],
  },
  arrays: {
    schemas: [{ items: { type: 'integer' } }, { prefixItems: [{ type: 'integer' }, { type: 'string' }] }, { prefixItems: [{ type: 'integer' }], items: false }, { prefixItems: [true], items: { type: 'string' } }, { minItems: 1 }, { maxItems: 1 }, { minItems: 2, maxItems: 3 }, { uniqueItems: true }, { contains: { type: 'string' } }, { contains: { const: 1 }, minContains: 2 }, { contains: { const: 1 }, maxContains: 1 }, { contains: false, minContains: 0 }, { type: 'array', items: { type: ['string', 'null'] }, uniqueItems: true }, { items: { items: { type: 'integer' } } }],
    values: [...arrays, [1, 1, 1], ['a'], [[1, 'x']], 'a', {}, null],
  },
  objects: {
    schemas: [{ properties: { a: { type: 'integer' } } }, { required: ['a'] }, { required: ['a', 'b'] }, { properties: { a: true }, additionalProperties: false }, { properties: { a: true }, additionalProperties: { type: 'integer' } }, { patternProperties: { '^x': { type: 'integer' } } }, { patternProperties: { '^x': true, a: { type: 'integer' } }, additionalProperties: false }, { propertyNames: { maxLength: 1 } }, { propertyNames: { enum: ['a', 'b'] } }, { minProperties: 1 }, { maxProperties: 1 }, { dependentRequired: { a: ['b'] } }, { dependentSchemas: { a: { required: ['b'] } } }, { properties: { a: { properties: { a: { const: 1 } }, required: ['a'] } } }, { properties: { a: false } }, { type: 'object', properties: { b: { type: 'integer', minimum: 2 } }, required: ['b'] }],
    values: [...objects, { a: {} }, { a: { a: 2 } }, [], 'a', null],
  },
  combinators: {
    schemas: [{ allOf: [{ type: 'integer' }, { minimum: 1 }] }, { anyOf: [{ type: 'string' }, { minimum: 1 }] }, { oneOf: [{ type: 'integer' }, { minimum: 1 }] }, { not: { type: 'string' } }, { not: { required: ['a'] } }, { if: { type: 'integer' }, then: { minimum: 1 }, else: { type: 'string' } }, { if: { required: ['a'] }, then: { required: ['b'] } }, { if: { type: 'object' }, else: { type: 'array' } }, { anyOf: [{ required: ['a'] }, { required: ['b'] }] }, { oneOf: [{ required: ['a'] }, { required: ['b'] }] }, { allOf: [{ anyOf: [{ type: 'null' }, { type: 'object' }] }, { not: { minProperties: 2 } }] }, { not: { not: { type: 'array' } } }],
    values: all,
  },
  references: {
    schemas: [
      { $ref: '#/$defs/n', $defs: { n: { type: 'integer' } } },
      { $ref: '#/definitions/n', definitions: { n: { type: 'integer' } } },
      { $ref: '#n', $defs: { x: { $anchor: 'n', type: 'integer' } }, minimum: 1 },
      { properties: { a: { $ref: '#' } }, additionalProperties: false },
      { items: { $ref: '#/$defs/a~1b%25' }, $defs: { 'a/b%': { type: 'string' } } },
      { anyOf: [{ type: 'integer' }, { type: 'array', items: { $ref: '#' } }, { type: 'object', additionalProperties: { $ref: '#' } }] },
      { $id: 'http://example.com/root.json', $ref: 'item.json', $defs: { i: { $id: 'item.json', type: 'object' } } },
    ],
    values: all,
  },
  unevaluated: {
    schemas: [
      { properties: { a: true }, unevaluatedProperties: false },
      { allOf: [{ properties: { a: true } }], properties: { b: true }, unevaluatedProperties: false },
      { anyOf: [{ properties: { a: { type: 'integer' } }, required: ['a'] }, { properties: { b: true }, required: ['b'] }], unevaluatedProperties: false },
      { $ref: '#/$defs/x', unevaluatedProperties: { type: 'null' }, $defs: { x: { properties: { a: true, b: true } } } },
      { if: { required: ['a'] }, then: { properties: { a: true } }, else: { properties: { b: true } }, unevaluatedProperties: false },
      { dependentSchemas: { a: { properties: { b: true } } }, properties: { a: true }, unevaluatedProperties: false },
      { patternProperties: { '^x': true }, unevaluatedProperties: { type: 'integer' } },
      { prefixItems: [true], unevaluatedItems: false },
      { allOf: [{ prefixItems: [true, true] }], unevaluatedItems: { type: 'integer' } },
      { anyOf: [{ prefixItems: [{ type: 'integer' }] }, { items: { type: 'string' } }], unevaluatedItems: false },
    ],
    values: [...objects, ...arrays, { x1: 1, c: 2 }, { a: 1, b: 1, c: 1 }],
  },
  formats: {
    schemas: ['date-time', 'date', 'time', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uri-reference', 'uuid', 'json-pointer', 'relative-json-pointer', 'duration', 'uri-template', 'regex', 'made-up'].map((format) => ({ format })),
    values: ['', '2026-01-31T12:00:00Z', '2026-01-31T12:00:00.5+01:00', '2026-02-30T12:00:00Z', '2026-01-31', '2026-1-31', '12:00:00Z', '25:00:00Z', 'a@example.org', 'a b@example.org', 'example.org', '-a.example', '10.0.0.1', '10.0.0.256', '::1', '1::2::3', 'https://example.org/a?b#c', 'http://[::1]/', '/a/b', 'a b', '%zz', '7f9c24e8-3b12-4f4e-a5a1-0c5b8c3f7a10', '7f9c24e8', '/a/~0', '/a/~2', '0/a', '01/a', 'P1D', 'P1Y2D', 'PT36H', 'P', '{a}', '{a', 'a+', '(', 5, null],
  },
};

/// Values that differ from a value of the tool in one place.
function* mutations(value) {
  if (Array.isArray(value)) {
    yield [];
    yield [...value, ...value];
    yield [...value, 7];
    for (const [i, inner] of value.entries()) for (const m of mutations(inner)) yield value.toSpliced(i, 1, m);
  } else if (value && typeof value === 'object') {
    yield { ...value, unheard_of: 1 };
    for (const name of Object.keys(value)) {
      const { [name]: inner, ...rest } = value;
      yield rest;
      for (const m of mutations(inner)) yield { ...value, [name]: m };
    }
  } else {
    yield null;
    yield typeof value === 'string' ? 5 : 'text';
    if (typeof value === 'number') yield* [-value, value + 0.5, value * 1000];
    if (typeof value === 'string') yield* ['', value + value, value.toUpperCase()];
  }
}

export function* written(tools) {
  for (const [family, { schemas, values }] of Object.entries(families)) {
    for (const schema of schemas) for (const value of values) yield { family, schema, value };
  }
  for (const { name, schema, valid, invalid } of tools) {
    for (const value of [...valid, ...invalid]) yield { family: name, schema, value };
    for (const value of valid) for (const m of mutations(value)) yield { family: name, schema, value: m };
  }
}

/// Random generator with a seed.
export function random(seed) {
  let state = seed >>> 0 || 1;
  const next = () => {
    state ^= state << 13; state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5; state >>>= 0;
    return state;
  };
  return { below: (n) => next() % n, chance: (percent) => next() % 100 < percent, pick: (list) => list[next() % list.length] };
}

const names = ['a', 'b', 'c', 'ab', 'x1'];

export function randomValue(r, depth) {
  const kind = r.below(depth > 0 ? 9 : 6);
  if (kind === 0) return r.pick([null, true, false]);
  if (kind < 3) return r.pick([0, 1, 2, 3, -1, 1.5, 10, 2.25, 100]);
  if (kind < 6) return r.pick(['', 'a', 'b', 'ab', 'abc', 'x1', 'été', '\u{1F600}', '2026-01-31']);
  if (kind === 6) return Array.from({ length: r.below(4) }, () => randomValue(r, depth - 1));
  return Object.fromEntries(Array.from({ length: r.below(4) }, () => [r.pick(names), randomValue(r, depth - 1)]));
}

export function randomSchema(r, depth, root = true) {
  if (!root && r.chance(8)) return r.chance(70);
  const s = {};
  const inner = () => randomSchema(r, depth - 1, false);
  const map = () => Object.fromEntries(Array.from({ length: 1 + r.below(3) }, () => [r.pick(names), inner()]));
  const list = () => Array.from({ length: 1 + r.below(3) }, inner);
  const leaf = [
    () => { s.type = r.pick(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object', ['string', 'null'], ['integer', 'object'], ['array', 'object', 'number']]); },
    () => { s.minimum = r.pick([0, 1, 1.5, 3]); },
    () => { s.exclusiveMaximum = r.pick([1, 2, 10.5]); },
    () => { s.multipleOf = r.pick([2, 0.5, 3]); },
    () => { s.minLength = r.below(3); },
    () => { s.maxLength = r.below(4); },
    () => { s.pattern = r.pick(['^a', 'b$', '^[a-z]*$', '^\\w+$', '\\d']); },
    () => { s.enum = Array.from({ length: 1 + r.below(4) }, () => randomValue(r, 1)).filter((v, i, l) => l.findIndex((w) => JSON.stringify(v) === JSON.stringify(w)) === i); },
    () => { s.const = randomValue(r, 2); },
    () => { s.required = [...new Set([r.pick(names), r.pick(names)])]; },
    () => { s.minItems = r.below(3); },
    () => { s.maxItems = r.below(4); },
    () => { s.uniqueItems = true; },
    () => { s.minProperties = r.below(3); },
    () => { s.maxProperties = r.below(4); },
    () => { s.dependentRequired = { [r.pick(names)]: [r.pick(names)] }; },
    () => { s.format = r.pick(['date', 'ipv4', 'nothing-known']); },
  ];
  const deep = [
    () => { s.properties = map(); },
    () => { s.properties = map(); },
    () => { s.additionalProperties = inner(); },
    () => { s.patternProperties = { [r.pick(['^a', 'b', '1$'])]: inner() }; },
    () => { s.propertyNames = inner(); },
    () => { s.items = inner(); },
    () => { s.prefixItems = list(); },
    () => { s.contains = inner(); if (r.chance(40)) s.minContains = r.below(3); if (r.chance(40)) s.maxContains = r.below(3); },
    () => { s.allOf = list(); },
    () => { s.anyOf = list(); },
    () => { s.oneOf = list(); },
    () => { s.not = inner(); },
    () => { s.if = inner(); s.then = inner(); s.else = inner(); },
    () => { s.dependentSchemas = { [r.pick(names)]: inner() }; },
    () => { s.$ref = r.pick(['#/$defs/one', '#/$defs/two']); },
    () => { s.unevaluatedProperties = inner(); },
    () => { s.unevaluatedItems = inner(); },
  ];
  for (let n = r.below(3) + (root ? 1 : 0); n > 0; n--) r.pick(depth > 0 && r.chance(65) ? deep : leaf)();
  if (root) {
    s.$defs = { one: randomSchema(r, 0, false), two: depth > 0 ? { properties: { a: { $ref: '#/$defs/two' } }, required: r.chance(50) ? ['a'] : ['b'] } : true };
  }
  return s;
}

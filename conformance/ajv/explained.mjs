// Where Ajv and we differ, who is right by the standard, and why.

/// Whether a keyword stands anywhere in a pair's schema.
const has = (pair, keyword) => JSON.stringify(pair.schema).includes(`"${keyword}":`);

export const explanations = [
  {
    who: 'we',
    why: 'Ajv fails with an exception while it compiles or runs the schema (`Cannot set properties of undefined`, `Maximum call stack`)',
    covers: (pair, mine, theirs) => !mine.error && /Cannot set properties|call stack/.test(theirs.error ?? ''),
  },
  {
    who: 'we',
    why: 'unevaluatedItems and unevaluatedProperties look at every branch of anyOf that fits and at contains (core, section 11); Ajv loses some of them',
    covers: (pair, mine, theirs) => !mine.error && !theirs.error && (has(pair, 'unevaluatedItems') || has(pair, 'unevaluatedProperties')),
  },
  {
    who: 'we',
    why: 'a reference without scheme has no colon in its first segment (RFC 3986, section 4.2)',
    covers: (pair, mine) => pair.schema.format === 'uri-reference' && mine.valid === false && /^[^/?#]*:/.test(pair.value),
  },
  {
    who: 'we',
    why: 'a duration leaves out no unit between two others (RFC 3339, appendix A)',
    covers: (pair, mine) => pair.schema.format === 'duration' && pair.value === 'P1Y2D' && mine.valid === false,
  },
  {
    who: 'we',
    why: 'ajv-formats reads patterns without the flag `u`, which the standard asks for (core, section 6.4); a brace alone is an error then',
    covers: (pair, mine) => pair.schema.format === 'regex' && /^\{/.test(pair.value) && mine.valid === false,
  },
];

// Known differences between Ajv and us: the correct verdict by the standard, and the reason.

/// True if a keyword occurs anywhere in the schema of a pair.
const has = (pair, keyword) => JSON.stringify(pair.schema).includes(`"${keyword}":`);

export const explanations = [
  {
    who: 'we',
    why: 'Ajv fails with an exception while it compiles or runs the schema (`Cannot set properties of undefined`, `props0 is not defined`)',
    covers: (pair, mine, theirs) => !mine.error && /Cannot set properties|call stack|is not defined/.test(theirs.error ?? ''),
  },
  {
    who: 'we',
    why: 'unevaluatedItems and unevaluatedProperties consider every matching branch of anyOf, and contains (core, section 11); Ajv ignores some of them and rejects evaluated items and members',
    covers: (pair, mine, theirs) =>
      mine.valid === true && theirs.valid === false &&
      (has(pair, 'unevaluatedItems') && (has(pair, 'anyOf') || has(pair, 'contains')) ||
       has(pair, 'unevaluatedProperties') && has(pair, 'anyOf')),
  },
  {
    who: 'we',
    why: 'items and members that only the other branch of if would evaluate stay unevaluated (core, section 10.2.2); Ajv counts contains in the else of an if that is always true',
    covers: ({ schema }, mine, theirs) =>
      mine.valid === false && theirs.valid === true && 'unevaluatedItems' in schema &&
      ['{}', 'true'].includes(JSON.stringify(schema.if)) && schema.else?.contains !== undefined,
  },
  {
    who: 'we',
    why: 'a reference without scheme has no colon in its first segment (RFC 3986, section 4.2)',
    covers: (pair, mine) => pair.schema.format === 'uri-reference' && mine.valid === false && /^[^/?#]*:/.test(pair.value),
  },
  {
    who: 'we',
    why: 'a duration must not omit a unit between two others (RFC 3339, appendix A)',
    covers: (pair, mine) => pair.schema.format === 'duration' && pair.value === 'P1Y2D' && mine.valid === false,
  },
  {
    who: 'we',
    why: 'contains applies regardless of prefixItems (core, section 10.3.1.3); Ajv skips it on an array that ends before a later entry of prefixItems',
    covers: (pair, mine, theirs) => has(pair, 'contains') && has(pair, 'prefixItems') && mine.valid === false && theirs.valid === true,
  },
];

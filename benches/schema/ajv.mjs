// The same tools and values in Ajv 2020 with ajv-formats, for `schema-bench time`. The bench starts
// this script and requests one round after the other: a line `WHAT PASSES` in, a line `NANOSECONDS
// VALUES` out. WHAT is valid, invalid, error (with a message) or compile.
//
// `conformance/ajv.sh 0` installs Ajv. It generates JavaScript for each schema, and V8 generates
// machine code once it is hot; `compile` measures the former, warm.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(new URL('../../conformance/ajv/package.json', import.meta.url));
const Ajv2020 = require('ajv/dist/2020.js').default;
const addFormats = require('ajv-formats').default;

const tools = JSON.parse(readFileSync(new URL('tools.json', import.meta.url), 'utf8'));
const ajv = addFormats(new Ajv2020({ strict: false, ownProperties: true }));
const compile = (schema) => addFormats(new Ajv2020({ strict: false, ownProperties: true })).compile(schema);
const compiled = tools.map((tool) => ({ ...tool, check: compile(tool.schema) }));
for (const tool of compiled) {
  for (const value of tool.valid) if (!tool.check(value)) throw new Error(`${tool.name}: refused`);
  for (const value of tool.invalid) if (tool.check(value)) throw new Error(`${tool.name}: accepted`);
}

// Keeps V8 from removing the work.
let seen = 0;

const rounds = {
  valid: () => each('valid', (check, value) => check(value)),
  invalid: () => each('invalid', (check, value) => check(value)),
  error: () => each('invalid', (check, value) => check(value) || ajv.errorsText(check.errors).length),
  compile() {
    for (const { schema } of tools) seen += compile(schema).length;
    return tools.length;
  },
};

function each(kind, ask) {
  let n = 0;
  for (const { check, [kind]: values } of compiled) {
    for (const value of values) {
      seen += Number(ask(check, value));
      n++;
    }
  }
  return n;
}

for await (const line of createInterface({ input: process.stdin })) {
  const [what, passes] = line.split(' ');
  const start = process.hrtime.bigint();
  let n = 0;
  for (let i = 0; i < Number(passes); i++) n += rounds[what]();
  console.log(`${process.hrtime.bigint() - start} ${n}`);
}
if (Number.isNaN(seen)) throw new Error('a round without a result');

// The same tools and values in Ajv 2020 with ajv-formats: mean nanoseconds per value, best of some
// rounds, after as many runs as V8 wants to compile what is hot.
//
//     conformance/ajv.sh 0 && node benches/schema/ajv.mjs     the first command installs Ajv
//
// Ajv makes JavaScript of each schema and V8 machine code of that; `compile` is the former, warm.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const here = new URL('.', import.meta.url);
const require = createRequire(new URL('../../conformance/ajv/package.json', here));
const Ajv2020 = require('ajv/dist/2020.js').default;
const addFormats = require('ajv-formats').default;

const tools = JSON.parse(readFileSync(new URL('tools.json', here), 'utf8'));
const compile = (schema) => addFormats(new Ajv2020({ strict: false, ownProperties: true })).compile(schema);
const compiled = tools.map((tool) => ({ ...tool, check: compile(tool.schema) }));
for (const tool of compiled) {
  for (const value of tool.valid) if (!tool.check(value)) throw new Error(`${tool.name}: refused`);
  for (const value of tool.invalid) if (tool.check(value)) throw new Error(`${tool.name}: accepted`);
}

function time(name, rounds, passes, pass) {
  let best = Infinity;
  for (let round = 0; round < rounds; round++) {
    const start = process.hrtime.bigint();
    let n = 0;
    for (let i = 0; i < passes; i++) n += pass();
    best = Math.min(best, Number(process.hrtime.bigint() - start) / n);
  }
  console.log(`${name.padEnd(8)} ajv         ${best.toFixed(0).padStart(9)} ns`);
}

for (const kind of ['valid', 'invalid']) {
  time(kind, 30, 200, () => {
    let n = 0;
    for (const { check, [kind]: values } of compiled) for (const value of values) { check(value); n++; }
    return n;
  });
}
time('compile', 5, 1, () => {
  for (const { schema } of tools) compile(schema);
  return tools.length;
});

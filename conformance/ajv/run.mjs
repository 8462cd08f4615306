// Compares our verdicts with those of Ajv 2020 and ajv-formats.
//
//     node run.mjs BATCH TOOLS [PAIRS] [SEED]
//
// BATCH is the program that validates lines of schema and value, TOOLS the file with tool schemas,
// PAIRS the number of generated pairs after the written ones. The exit code is 1 if a difference
// has no explanation in explained.mjs, and in full runs also if an explanation was not needed.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { random, randomSchema, randomValue, written } from './corpus.mjs';
import { explanations } from './explained.mjs';

const [batch, toolsFile, pairsWanted = '100000', seed = '20261120'] = process.argv.slice(2);
const pairs = [...written(JSON.parse(readFileSync(toolsFile, 'utf8')))];
const writtenCount = pairs.length;
const r = random(Number(seed));
while (pairs.length < writtenCount + Number(pairsWanted)) {
  const schema = randomSchema(r, 2);
  for (let i = 0; i < 20; i++) pairs.push({ family: 'generated', schema, value: randomValue(r, 3) });
}

const lines = pairs.map(({ schema, value }) => JSON.stringify({ schema, value })).join('\n') + '\n';
const run = spawnSync(batch, { input: lines, maxBuffer: 1 << 30, encoding: 'utf8' });
if (run.status !== 0) {
  console.error(`the batch program failed: ${run.stderr}`);
  process.exit(2);
}
const ours = run.stdout.trimEnd().split('\n').map((line) => JSON.parse(line));

let last, check;
function ajvSays(schema, value) {
  if (schema !== last) {
    last = schema;
    const ajv = new Ajv2020({ strict: false, ownProperties: true, logger: false });
    addFormats(ajv);
    try { check = ajv.compile(schema); } catch (error) { check = error; }
  }
  if (check instanceof Error) return { error: check.message };
  try { return { valid: check(value) }; } catch (error) { return { error: error.message }; }
}

const used = new Map(explanations.map((e) => [e, 0]));
let agreed = 0, explained = 0;
const open = [];
const verdicts = { valid: 0, invalid: 0, error: 0 };
for (const [i, pair] of pairs.entries()) {
  const theirs = ajvSays(pair.schema, pair.value);
  const mine = ours[i];
  verdicts[mine.error ? 'error' : mine.valid ? 'valid' : 'invalid']++;
  if (!mine.error === !theirs.error && mine.valid === theirs.valid) { agreed++; continue; }
  const why = explanations.find((e) => e.covers(pair, mine, theirs));
  if (why) { explained++; used.set(why, used.get(why) + 1); } else open.push({ ...pair, mine, theirs });
}

console.log(`${writtenCount} written and ${pairs.length - writtenCount} generated pairs (seed ${seed}): ` +
  `${verdicts.valid} valid, ${verdicts.invalid} invalid, ${verdicts.error} refused`);
console.log(`${agreed} agreed, ${explained} explained, ${open.length} unexplained`);
for (const [e, n] of used) console.log(`  ${n} x ${e.who} right: ${e.why}`);
for (const d of open.slice(0, 20)) console.log('  UNEXPLAINED', JSON.stringify(d));
// Short runs do not meet every difference.
const idle = Number(pairsWanted) >= 100000 ? [...used].filter(([, n]) => n === 0) : [];
for (const [e] of idle) console.log(`  UNUSED ${e.why}`);
process.exit(open.length + idle.length > 0 ? 1 : 0);

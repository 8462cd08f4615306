// Results of any server, as the SDKs return them.

import { holds, same } from "./harness.mjs";

/** Revision of each era. */
export const PROTOCOL = { legacy: "2025-11-25", modern: "2026-07-28" };
/** Error code for an unknown URI, on the wire. */
export const NOT_FOUND = { legacy: -32002, modern: -32602 };

/** The only text block of a result. */
export function text(result) {
  same(result.content.length, 1, "number of content blocks");
  same(result.content[0].type, "text", "content type");
  return result.content[0].text;
}

/** Checks a successful call and its text. */
export function said(result, expected) {
  same(result.isError ?? false, false, `isError of ${JSON.stringify(result.content)}`);
  same(text(result), expected, "text");
}

/** Checks an error result whose text contains each of `parts`. */
export function refused(result, ...parts) {
  same(result.isError, true, `isError of ${JSON.stringify(result)}`);
  for (const part of parts) holds(text(result).includes(part), `${part} is not named in: ${text(result)}`);
}

/** Waits for the JSON-RPC error of a request; `message` is the end of its text where it is fixed. */
export async function fails(promise, code, message) {
  const error = await promise.then(
    (result) => Promise.reject(new Error(`expected error ${code}, got ${JSON.stringify(result)}`)),
    (error) => error,
  );
  holds(error.code === code, `expected error ${code}, got ${error.code ?? ""} ${error.message}`);
  if (message !== undefined) holds(error.message.endsWith(message), `expected “${message}”, got “${error.message}”`);
}

/** The text of the only content of a read. */
export function contents(result, uri) {
  same(result.contents.length, 1, "number of contents");
  same(result.contents[0].uri, uri, "uri");
  return result.contents[0].text;
}

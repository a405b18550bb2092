/** Decodes base64, for pages that use PVWS. */

/* global atob */
/* exported toByteArray */

"use strict";

/** The bytes of a base64 text, as a Uint8Array. */
function toByteArray(b64) {
  return Uint8Array.from(atob(b64), (character) => character.charCodeAt(0));
}

/** Content that the browser saves as a file. */

const KEEP_ADDRESS_MS = 60_000;

/** Saves a `Blob` as a file of this name. */
export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEEP_ADDRESS_MS);
}

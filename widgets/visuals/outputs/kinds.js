/** The viewer of a file, by the extension of its name. */

const TEXT_ENDINGS = new Set([
  "txt",
  "log",
  "json",
  "yaml",
  "yml",
  "toml",
  "md",
  "py",
  "ini",
  "cfg",
  "xml",
  "html",
  "svg",
]);
const TABLE_ENDINGS = new Set(["csv", "tsv"]);

/** Maximum size of a displayed file, in bytes. */
export const mostViewed = 8 * 1024 * 1024;

/** The MIME types of displayed images, by extension. Vector images are not among them: they are shown as text. */
export const pictureTypes = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};

/** The extension of a file's name, in lower case. */
export function endingOf(name) {
  return name.split("/").at(-1).split(".").at(-1).toLowerCase();
}

/** `notebook`, `picture`, `table` or `text`; null for a file that cannot be shown. */
export function kindOf(name) {
  const ending = endingOf(name);
  if (ending === "ipynb") return "notebook";
  if (Object.hasOwn(pictureTypes, ending)) return "picture";
  if (TABLE_ENDINGS.has(ending)) return "table";
  return TEXT_ENDINGS.has(ending) ? "text" : null;
}

/** The files that a job left: listed, viewed as text, picture or notebook, and downloaded. */

import { call, fetchFile } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { isFinal, when } from "../visuals/base/glyphs.js";
import { clean, cleanLines, clockNow, size } from "../visuals/base/words.js";
import { drawNotebook, readNotebook } from "./notebook.js";

const MOST_VIEWED = 8 * 1024 * 1024;
const MOST_TEXT = 200_000;
const PICTURES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
const TEXTS = new Set(["txt", "log", "csv", "tsv", "json", "yaml", "yml", "toml", "md", "py", "ini", "cfg", "xml", "html", "svg"]);

export class Outputs {
  /**
   * @param path of the job
   * @param changed called when there is something new to draw
   */
  constructor(path, changed) {
    this.path = path;
    this.changed = changed;
    this.list = null;
    this.viewed = null;
    this.notice = "";
  }

  /** Reads the list again. */
  async read() {
    this.list = (await call("GET", `${this.path}/output`).catch(() => null)) ?? this.list;
    this.changed();
  }

  /** The list, and the file that is viewed, as descriptions. */
  draw(job) {
    if (!this.list?.items.length) return h("p", { class: "st-muted", "data-testid": "no-outputs" }, isFinal(job.state) ? "None: the job wrote nothing to the folder SPRINGTIDE_OUTPUT_DIR." : "None yet. What the job writes to the folder SPRINGTIDE_OUTPUT_DIR is kept and shows here.");
    return [
      h(
        "div",
        { key: "files", class: "table-responsive" },
        h(
          "table",
          { class: "table st-table", "data-testid": "outputs" },
          h("thead", {}, h("tr", {}, ["file", "size", "written", "actions"].map((head) => h("th", { key: head, scope: "col" }, head)))),
          h("tbody", {}, this.list.items.map((file) => this.#row(file))),
        ),
      ),
      this.list.more && h("p", { key: "more", class: "st-muted" }, "There are more files than are listed here."),
      this.notice && h("p", { key: "notice", class: "st-notice", role: "status" }, clean(this.notice)),
      this.viewed && this.#view(job),
    ];
  }

  #row(file) {
    const name = clean(file.name);
    const able = kindOf(file) !== null;
    return h(
      "tr",
      { key: file.name, "data-testid": "output-row" },
      h("th", { key: "name", scope: "row", class: "st-across" }, name),
      h("td", { key: "size", "data-label": "size" }, size(file.size)),
      h("td", { key: "written", "data-label": "written" }, when(file.written, clockNow())),
      h(
        "td",
        { key: "actions", class: "st-across" },
        h("button", { key: "view", type: "button", class: "st-button", disabled: !able, "aria-label": `View ${name}`, "data-testid": "output-view", on: { click: () => this.#open(file) } }, this.viewed?.name === file.name ? "Close" : "View"),
        " ",
        h("button", { key: "download", type: "button", class: "st-button", "aria-label": `Download ${name}`, "data-testid": "output-download", on: { click: () => this.#download(file) } }, "Download"),
      ),
    );
  }

  async #fetch(file) {
    this.notice = "";
    try {
      return await fetchFile(`${this.path}/output/${file.name.split("/").map(encodeURIComponent).join("/")}`);
    } catch (error) {
      this.notice = error.message;
      this.changed();
      return null;
    }
  }

  async #download(file) {
    const content = await this.#fetch(file);
    if (!content) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = file.name.split("/").at(-1);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  async #open(file) {
    if (this.viewed?.name === file.name) {
      this.viewed = null;
      this.changed();
      return;
    }
    const content = await this.#fetch(file);
    if (!content) return;
    const kind = kindOf(file);
    const shown = { name: file.name, kind };
    if (kind === "picture") shown.address = await addressOf(content, PICTURES[endingOf(file.name)]);
    else shown.text = await content.text();
    if (kind === "notebook") shown.notebook = readNotebook(shown.text);
    this.viewed = shown;
    this.changed();
  }

  #view() {
    const { name, kind, text, address, notebook } = this.viewed;
    const cut = (text ?? "").length > MOST_TEXT;
    return h(
      "div",
      { key: `view ${name}`, class: "st-viewed", "data-testid": "output-viewed" },
      h("h3", {}, clean(name)),
      kind === "picture" && h("img", { key: "picture", src: address, alt: clean(name) }),
      notebook && drawNotebook(notebook),
      kind !== "picture" && !notebook && h("pre", { key: "text", class: "st-log st-code", tabindex: 0 }, cleanLines(text.slice(0, MOST_TEXT))),
      cut && !notebook && h("p", { key: "cut", class: "st-muted" }, "Only the beginning is shown; download the file for the rest."),
    );
  }
}

function endingOf(name) {
  return name.split("/").at(-1).split(".").at(-1).toLowerCase();
}

/** How a file can be shown, null if it cannot. */
function kindOf({ name, size: bytes }) {
  const ending = endingOf(name);
  if (bytes > MOST_VIEWED) return null;
  if (ending === "ipynb") return "notebook";
  if (ending in PICTURES) return "picture";
  return TEXTS.has(ending) ? "text" : null;
}

function addressOf(content, type) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([content], { type }));
  });
}

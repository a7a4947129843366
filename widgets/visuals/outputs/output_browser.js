/** The output files of a job: listed, viewed as text, table, image or notebook, and downloaded. */

import { h } from "../base/dom.js";
import { button, isFinal, when } from "../base/glyphs.js";
import { saveBlob } from "../base/saving.js";
import { clean, cleanLines, clockNow, count, size } from "../base/words.js";
import { JobListing } from "./job_listing.js";
import { endingOf, kindOf, mostViewed, pictureTypes } from "./kinds.js";
import { drawNotebook, readNotebook } from "./notebook.js";
import { drawTable, readTable } from "./table.js";

const MOST_TEXT = 200_000;
const LOOK_AGAIN_S = 15;
const GONE = 404;
const FOLDER = "the folder SPRINGTIDE_OUTPUT_DIR";
/** The files of a job with the result of its function, the best first. */
const RESULTS = ["result.png", "result.csv", "result.head.csv", "result.txt", "result.json"];
const TOO_LARGE = `It is too large to be shown: ${size(mostViewed)} at most. Download it instead.`;
const NOT_READABLE = {
  picture: "It is no picture that can be shown. Download it instead.",
  notebook: "It is no notebook; this is its text.",
  table: "The file is empty.",
};

export class OutputBrowser extends JobListing {
  /**
   * @param call `call(method, path)` promises the body of the API's response, or throws with `message` and `status`
   * @param openFile opens a file of the API: promises a `Response` whose body is the file, or throws in the same way
   * @param path of the job
   * @param changed called when the view has to be drawn again
   * @param card on a job's card, null on its page: `most`: the maximum number of listed files; `href` and `target` of the
   *   page, which shows notebooks and the other files, `href` null if there is none
   * @param board the address of the job's TensorBoard
   */
  constructor(call, openFile, path, changed, { card = null, board = null } = {}) {
    super(call, `${path}/output`, LOOK_AGAIN_S, changed);
    this.openFile = openFile;
    this.card = card;
    this.board = board;
    this.isOpen = card === null;
    this.viewed = null;
    this.notice = null;
    this.wanted = 0;
    this.result = { attempt: null, viewed: null };
  }

  /** Whether the list, as far as it was read, has event files of TensorBoard. */
  get hasEventFiles() {
    return this.list?.openers?.some(isBoard) ?? false;
  }

  /** Reads the list if the job may have written files since; call it at each drawing. */
  follow(job) {
    if (this.isOpen) this.look(job, job.progress.at);
  }

  /** What the function of a succeeded job returned, if a file shows it; read once for each attempt. */
  drawResult(job) {
    if (job.state !== "succeeded" || job.kind !== "function" || job.trials) return null;
    if (this.result.attempt !== job.attempt && !document.hidden) this.#readResult(job.attempt);
    const { viewed } = this.result;
    return (
      viewed &&
      h(
        "section",
        { key: "result", class: "st-result", "aria-label": "Result", "data-testid": "job-result" },
        h("p", { key: "head", class: "st-muted" }, viewed.name.includes(".head.") ? "Result, its beginning" : "Result"),
        drawViewed(viewed, () => {
          this.result.viewed = null;
          this.changed();
        }),
      )
    );
  }

  async #readResult(attempt) {
    this.result = { attempt, viewed: null };
    try {
      const { items } = await this.call("GET", this.path);
      const file = RESULTS.map((name) => items.find((item) => item.name === name)).find(Boolean);
      if (!file || file.size > mostViewed) return;
      const viewed = await readFile(file.name, await this.#content(file, mostViewed));
      if (attempt === this.result.attempt && viewed.text?.trim() !== "null") this.result.viewed = viewed;
    } catch {
      return; // the list of outputs says why
    }
    this.changed();
  }

  /** The list as a fold of a card: closed at first, and read when it is opened. */
  drawFold(job) {
    const toggle = ({ target }) => {
      this.isOpen = target.open;
      this.changed();
    };
    return h(
      "details",
      { key: "outputs", class: "st-log-fold", "data-testid": "job-outputs", on: { toggle } },
      h(
        "summary",
        { key: "summary" },
        "Outputs",
        this.list &&
          h(
            "span",
            { class: "st-muted" },
            ` · ${this.list.items.length ? `${count(this.list.items.length, "file")}${this.list.more ? " and more" : ""}` : "none"}`,
          ),
      ),
      this.isOpen && this.draw(job),
    );
  }

  /** The list, with the open view below its file, as descriptions. */
  draw(job) {
    const problem =
      this.problem &&
      h(
        "p",
        { key: "problem", class: "st-notice", role: "status", "data-testid": "outputs-problem" },
        clean(this.problem),
      );
    if (this.list === null)
      return problem || h("p", { key: "wait", class: "st-muted", role: "status" }, "Reading the list…");
    if (!this.list.items.length)
      return [
        problem,
        h(
          "p",
          { key: "none", class: "st-muted", "data-testid": "no-outputs" },
          isFinal(job.state)
            ? `No outputs: the job wrote nothing to ${FOLDER}.`
            : `No outputs yet. What the job writes to ${FOLDER} is kept and shows here.`,
        ),
      ];
    const listed = this.list.items.slice(0, this.card?.most);
    return [
      problem,
      h(
        "ul",
        { key: "files", class: "st-files", "data-testid": "outputs" },
        listed.map((file) => this.#row(file)),
      ),
      this.#rest(this.list.items.length - listed.length),
      ...(this.list.openers ?? []).map((opener) => this.#opener(opener)),
    ];
  }

  #opener({ tool, folder, command }) {
    const isHere = isBoard({ tool }) && this.board;
    return h(
      "p",
      { key: `${tool} ${folder}`, class: "st-muted", "data-testid": "output-opener" },
      isHere
        ? `“Open TensorBoard” shows the files in ${clean(folder)}. Elsewhere `
        : `${clean(tool)}, in ${clean(folder)}: `,
      "download the outputs, then ",
      h("code", {}, clean(command)),
    );
  }

  #rest(number) {
    if (!number)
      return this.list.more && h("p", { key: "more", class: "st-muted" }, "There are more files than are listed here.");
    return h(
      "p",
      { key: "more", class: "st-muted" },
      `${count(number, "more file")} not listed here. `,
      this.#pageLink("All on the job's page"),
    );
  }

  #pageLink(words, more = {}) {
    const { href, target } = this.card ?? {};
    return href && h("a", { key: "page", href, target, ...more }, words);
  }

  #row(file) {
    const name = clean(file.name);
    const notice = this.notice?.name === file.name && this.notice.words;
    return h(
      "li",
      { key: file.name, "data-testid": "output-row" },
      h("span", { key: "name", class: "st-file-name" }, name),
      h("span", { key: "about", class: "st-muted" }, size(file.size), " · ", when(file.written, clockNow())),
      h(
        "span",
        { key: "actions", class: "st-file-actions" },
        this.#viewing(file, name),
        button("output-download", "Download", () => this.#download(file), { "aria-label": `Download ${name}` }),
      ),
      notice &&
        h("p", { key: "notice", class: "st-notice", role: "status", "data-testid": "output-notice" }, clean(notice)),
      this.viewed?.name === file.name && this.#view(),
    );
  }

  #viewing(file, name) {
    const kind = kindOf(file.name);
    if (kind === "notebook" && this.card)
      return this.#pageLink("On the job's page", {
        class: "st-button",
        "aria-label": `View ${name} on the job's page`,
      });
    if (kind === null) return null;
    if (file.size > mostViewed) return h("span", { key: "large", class: "st-muted" }, "too large to view");
    const isShown = this.viewed?.name === file.name;
    return button("output-view", isShown ? "Close" : "View", () => this.#toggle(file), {
      "aria-expanded": String(isShown),
      "aria-label": `${isShown ? "Close" : "View"} ${name}`,
    });
  }

  /** Runs `work`; an error is shown at the file. */
  async #attempt(file, work) {
    this.notice = null;
    try {
      await work();
    } catch (error) {
      this.notice = { name: file.name, words: error.status === GONE ? "The file is no longer there." : error.message };
    }
    this.changed();
  }

  async #content(file, most = Infinity) {
    const answer = await this.openFile(`${this.path}/${file.name.split("/").map(encodeURIComponent).join("/")}`);
    if (Number(answer.headers.get("Content-Length")) > most) {
      await answer.body?.cancel();
      throw new Error(TOO_LARGE);
    }
    return answer.blob().catch(() => {
      throw new Error("The file did not come whole. Try again in a moment.");
    });
  }

  #download(file) {
    return this.#attempt(file, async () => {
      saveBlob(await this.#content(file), clean(file.name.split("/").at(-1)));
    });
  }

  /** Opens the view of a file, or closes it. If several are requested in a row, the last one is shown. */
  async #toggle(file) {
    const turn = (this.wanted += 1);
    if (this.viewed?.name === file.name) {
      this.viewed = null;
      this.changed();
      return;
    }
    await this.#attempt(file, async () => {
      const viewed = await readFile(file.name, await this.#content(file, mostViewed));
      if (turn === this.wanted) this.viewed = viewed;
    });
  }

  #view() {
    const { name, kind } = this.viewed;
    return drawViewed(this.viewed, () => {
      this.viewed = { name, kind, text: "" };
      this.changed();
    });
  }
}

function isBoard({ tool }) {
  return tool === "TensorBoard";
}

/** The content of a read file; `broken` is called if its image cannot be shown. */
function drawViewed({ name, kind, text, address, notebook, table }, broken) {
  const isText = !address && !notebook && !table;
  return h(
    "div",
    { key: `view ${name}`, class: "st-viewed", "data-testid": "output-viewed" },
    address && h("img", { key: "picture", src: address, alt: clean(name), on: { error: broken } }),
    notebook && drawNotebook(notebook),
    table && drawTable(table),
    isText &&
      kind in NOT_READABLE &&
      h(
        "p",
        { key: "not", class: "st-muted", role: "status", "data-testid": "output-not-readable" },
        NOT_READABLE[kind],
      ),
    isText &&
      text &&
      h(
        "pre",
        { key: "text", class: "st-log", tabindex: 0, "aria-label": clean(name) },
        cleanLines(text.slice(0, MOST_TEXT)),
      ),
    isText &&
      text.length > MOST_TEXT &&
      h("p", { key: "cut", class: "st-muted" }, "Only the beginning is shown; download the file for the rest."),
    isText && kind === "text" && !text && h("p", { key: "empty", class: "st-muted" }, "The file is empty."),
  );
}

/** The view of a file. The extension alone decides the type of an image, whatever the content may be. */
async function readFile(name, content) {
  const kind = kindOf(name);
  if (kind === "picture") return { name, kind, address: await addressOf(content, pictureTypes[endingOf(name)]) };
  const text = await content.text();
  if (kind === "notebook") return { name, kind, text, notebook: readNotebook(text) };
  return { name, kind, text, table: kind === "table" ? readTable(text, endingOf(name)) : null };
}

function addressOf(content, type) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([content], { type }));
  });
}

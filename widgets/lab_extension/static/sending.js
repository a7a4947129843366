/** Submits a script, a notebook or a cell to the pool, after a dialog for the number of GPUs. */

import { addCommand } from "./commands.js";
import { OPEN_JOB } from "./tabs.js";
import { clean } from "./visuals/base/words.js";
import { noticeOf } from "./whole_words.js";

const SEND_FILE = "springtide:send-file";
const SEND_CELL = "springtide:send-cell";
const SETTLED_MS = 350;
const PARAMETERS = "parameters";
/** The element with the focus in the dialog, which takes it back if it leaves: a disabled *Send* could not. */
const FIRST_FOCUS = '[data-testid="send-gpus"]';
const NO_PREVIEW = { parameters: [], problems: {}, refusal: "" };
const NOT_PYTHON = "Only cells of Python kernels can be sent.";
const NOT_INSTALLED =
  "Nothing was sent: this kernel's Python lacks the package springtide[widgets]. Install it there, choose a kernel that has it (New Environment… in the launcher makes one), or send the whole notebook from the file browser.";
const NO_KERNEL =
  "A cell is sent with the variables of its kernel, and none is running. Start one, or send the whole notebook.";

const NO_CODE = "Only a code cell can run as a job. Select one, or send the whole notebook from the file browser.";

/** Adds the commands to JupyterLab or Notebook. `parts`: `files`, `documents` and `notebooks`, null if the page has none. */
export function addCommands(app, shared, feed, server, parts, icon) {
  const label = "Send to the Pool…";
  const { notebooks, palette } = parts;
  const isCode = () => notebooks?.currentWidget?.content.activeCell?.model.type === "code";
  const opened = (job) => app.commands.execute(OPEN_JOB, { job });
  app.commands.addCommand(SEND_FILE, {
    label,
    icon,
    caption: "Run this script or notebook as a job in the shared pool",
    execute: async () => {
      const item = chosenFile(app, parts.files?.tracker.currentWidget);
      if (item) await attempted(shared, () => sendFile(item, shared, feed, server, parts.documents, opened));
    },
  });
  const sendActive = {
    label: ({ isPalette }) => (isPalette ? "Send the Active Cell to the Pool…" : label),
    caption: () => (isCode() ? "Run this cell as a job in the shared pool" : NO_CODE),
    isEnabled: isCode,
    isVisible: () => Boolean(notebooks?.currentWidget),
    execute: () => attempted(shared, () => sendCell(notebooks?.currentWidget, shared, feed, server)),
  };
  addCommand(app, palette, SEND_CELL, sendActive, icon);
  notebooks?.activeCellChanged.connect(() => app.commands.notifyCommandChanged(SEND_CELL));
}

/** The file whose context menu is open, else the selected one. */
function chosenFile(app, files) {
  if (!files) return null;
  const row = app.contextMenuHitTest((node) => node.classList.contains("jp-DirListing-item"));
  const name = row?.querySelector(".jp-DirListing-itemName, .jp-DirListing-itemText")?.textContent;
  return [...files.model.items()].find((item) => item.name === name) ?? files.selectedItems().next().value ?? null;
}

async function attempted(shared, work) {
  try {
    await work();
  } catch (error) {
    await shared["@jupyterlab/apputils"].showErrorMessage("Nothing was sent", clean(error.message));
  }
}

/** Sends a file as it is in its open editors: unsaved changes are saved first. */
async function sendFile({ path, name }, shared, feed, server, documents, opened) {
  const work = { name, look: (given) => server.preview({ ...sightOf(path, documents), arguments: given }) };
  const chosen = await askOptions(work, shared, feed, server);
  if (chosen === null) return;
  await saveChanges(path, name, documents);
  const { id, notes } = await server.send(path, chosen.options, chosen.given);
  const apputils = shared["@jupyterlab/apputils"];
  const open = { label: "Open", caption: "Open the job", callback: () => opened(id) };
  const { message, actions } = noticeOf(apputils, [`Sent ${name} to the pool.`, ...notes].join(" "), [open]);
  apputils.Notification.success(message, { actions, autoClose: 8000 });
}

/** The file as it will be sent: of a notebook with changes that are not saved, its cells for parameters on the screen. */
function sightOf(path, documents) {
  const widget = documents?.findWidget(path, null);
  const model = widget && documents.contextForWidget(widget)?.model;
  if (!model?.dirty || !path.endsWith(".ipynb")) return { path };
  const cells = model.toJSON().cells.filter(({ metadata }) => metadata?.tags?.includes(PARAMETERS));
  return { path, parameters: cells.map(({ source }) => [source].flat().join("")) };
}

/** Saves the editors of the path. Throws if that was cancelled or failed: another text would be sent than is seen. */
async function saveChanges(path, name, documents) {
  const widget = documents?.findWidget(path, null);
  const context = widget && documents.contextForWidget(widget);
  if (!context?.model.dirty) return;
  await context.save().catch(() => {});
  if (context.model.dirty) throw new Error(`${name} was not saved. Save it, or undo your changes, and send it again.`);
}

/** Runs the cell by its magic, in its own output, where the job's card appears. */
async function sendCell(panel, shared, feed, server) {
  const cell = panel?.content.activeCell;
  const kernel = panel?.sessionContext.session?.kernel;
  if (cell?.model.type !== "code") throw new Error(NO_CODE);
  if (!kernel) throw new Error(NO_KERNEL);
  const { language_info: language } = await kernel.info;
  if (language.name !== "python") throw new Error(`${NOT_PYTHON} This notebook's kernel runs ${clean(language.name)}.`);
  const text = cell.model.sharedModel.getSource();
  const number = cell.model.executionCount;
  const name = number === null ? "this cell" : `cell In [${number}]`;
  const chosen = await askOptions({ name, look: () => server.preview({ cell: text, number }) }, shared, feed, server);
  if (chosen === null) return;
  const { options } = chosen;
  const flags = [`--gpus ${options.gpus}`, options.project ? `--project ${quoted(options.project)}` : ""]
    .join(" ")
    .trim();
  const code = codeOf(flags, text);
  await shared["@jupyterlab/outputarea"].OutputArea.execute(code, cell.outputArea, panel.sessionContext);
}

/** The code that sends a cell and shows its job, or says that the kernel has no package for it. */
function codeOf(flags, text) {
  return [
    "try:",
    "    import springtide.widgets",
    "except ModuleNotFoundError as error:",
    '    if not (error.name or "").startswith("springtide"): raise',
    `    print(${JSON.stringify(NOT_INSTALLED)}, file=__import__("sys").stderr)`,
    "else:",
    `    display(get_ipython().run_cell_magic("train", ${JSON.stringify(flags)}, ${JSON.stringify(text)}))`,
  ].join("\n");
}

function quoted(text) {
  return `'${text.replaceAll("'", `'"'"'`)}'`;
}

/**
 * Asks for project, GPUs and parameters; null if nothing is to be sent.
 * @param work its `name`, and `look(given)` that promises its preview: `parameters`, `problems` of those given, `refusal`
 */
async function askOptions(work, shared, feed, server) {
  const { Dialog, showDialog } = shared["@jupyterlab/apputils"];
  const me = await feed.call("GET", "me");
  if (!me.projects.length)
    throw new Error("You are in no project yet, so there is nothing to send to. An admin puts you into one.");
  const preview = await work.look({}).catch(() => NO_PREVIEW);
  const body = new (optionsBody(shared["@lumino/widgets"].Widget))(me, server, work, preview);
  const buttons = [Dialog.cancelButton(), Dialog.okButton({ label: "Send" })];
  const title = `Send ${clean(work.name)} to the pool`;
  const { button, value } = await showDialog({ title, body, buttons, focusNodeSelector: FIRST_FOCUS });
  if (!button.accept) return null;
  if (value.problem) throw new Error(value.problem);
  return value;
}

function optionsBody(Widget) {
  return class extends Widget {
    constructor(me, server, work, preview) {
      super();
      this.server = server;
      this.work = work;
      this.preview = preview;
      this.estimated = "";
      this.addClass("springtide");
      this.addClass("st-send");
      this.project = field("Project", "select");
      const names = me.projects.map(({ name }) => name);
      const lost = me.default_project !== null && !names.includes(me.default_project);
      if (lost) this.project.append(new Option("choose one", ""));
      for (const name of names) this.project.append(new Option(clean(name), name));
      this.project.value = lost ? "" : (me.default_project ?? names[0]);
      this.named = lost || names.length > 1;
      this.gpus = field("GPUs", "input");
      Object.assign(this.gpus, { type: "number", min: 1, step: 1, value: 1 });
      this.gpus.dataset.testid = "send-gpus";
      this.gpus.addEventListener("focus", () => this.gpus.select());
      const rows = this.named ? [this.project, this.gpus] : [this.gpus];
      this.node.append(...rows.map((input) => input.parentNode));
      this.parameters = preview.parameters.map(parameterField);
      if (this.parameters.length) this.node.append(group("Parameters", this.parameters));
      this.node.append((this.refusal = words("send-refusal", "alert")), (this.words = words("send-words", "status")));
      this.refusal.className = "st-field-wrong";
      for (const input of [this.project, this.gpus, ...this.parameters])
        input.addEventListener("input", () => this.tell());
      this.tell();
    }

    /** The typed parameters, by name. */
    get given() {
      const typed = this.parameters.filter(({ value }) => value.trim());
      return Object.fromEntries(typed.map(({ name, value }) => [name, value]));
    }

    /** Why the work cannot be sent as it stands; empty if it can. */
    get problem() {
      return this.preview.refusal || Object.values(this.preview.problems).join(" ");
    }

    onAfterAttach() {
      this.node.closest(".jp-Dialog")?.addEventListener("keydown", (event) => this.stay(event));
      this.show();
    }

    /** Takes Tab from the last button that is enabled to the first field: the dialog knows only that of its last button. */
    stay(event) {
      const buttons = event.currentTarget.querySelectorAll(".jp-Dialog-footer button:enabled");
      if (event.key !== "Tab" || event.shiftKey || document.activeElement !== [...buttons].at(-1)) return;
      event.preventDefault();
      this.node.querySelector("select, input").focus();
    }

    /** Shows the estimate for the job, and mistakes in typed parameters, after a pause in typing. */
    tell() {
      this.show(); // the dialog has just enabled its button
      clearTimeout(this.telling);
      this.telling = setTimeout(() => Promise.all([this.estimate(), this.check()]), SETTLED_MS);
    }

    async estimate() {
      const typed = { gpus: this.gpus.value, project: this.project.value };
      const review = await this.server.review(typed).catch((error) => ({ problems: {}, later: error.message }));
      if (typed.gpus !== this.gpus.value || typed.project !== this.project.value) return;
      this.estimated = Object.values(review.problems).join(" ") || review.estimate?.text || review.later;
      this.show();
    }

    async check() {
      if (!this.parameters.length) return;
      const asked = JSON.stringify(this.given);
      const preview = await this.work.look(this.given).catch(() => this.preview);
      if (asked !== JSON.stringify(this.given)) return;
      this.preview = preview;
      this.show();
    }

    /** Shows the mistake, else the estimate. The focus never stays on a button that is disabled. */
    show() {
      say(this.refusal, this.problem);
      say(this.words, this.problem ? "" : this.estimated);
      for (const input of this.parameters) input.ariaInvalid = input.name in this.preview.problems ? "true" : null;
      const button = this.node.closest(".jp-Dialog")?.querySelector(".jp-Dialog-footer .jp-mod-accept");
      if (!button) return;
      const isBlocked = Boolean(this.problem || this.node.querySelector(":invalid"));
      if (isBlocked && document.activeElement === button) this.gpus.focus();
      button.disabled = isBlocked;
    }

    onBeforeDetach() {
      clearTimeout(this.telling);
    }

    getValue() {
      const options = { gpus: Number(this.gpus.value) };
      if (this.named && this.project.value) options.project = this.project.value;
      return { options, given: this.given, problem: this.problem };
    }
  };
}

/** The field of a parameter. Its default shows as long as nothing is typed. */
function parameterField({ name, default: text, type }) {
  const input = field(clean(name), "input");
  input.parentNode.className = "st-code";
  const props = { type: "text", name, placeholder: clean(text), title: clean(type), autocomplete: "off" };
  return Object.assign(input, { ...props, spellcheck: false });
}

function group(label, inputs) {
  const box = document.createElement("fieldset");
  const legend = document.createElement("legend");
  legend.textContent = label;
  box.append(legend, ...inputs.map((input) => input.parentNode));
  return box;
}

/** Writes a line that screen readers read out, once for each text. */
function say(line, text) {
  const shown = clean(text);
  if (line.textContent !== shown) line.textContent = shown;
}

function words(part, role) {
  const line = document.createElement("p");
  line.setAttribute("role", role);
  line.dataset.testid = part;
  return line;
}

function field(words, tag) {
  const label = document.createElement("label");
  const input = document.createElement(tag);
  input.className = tag === "input" ? "jp-mod-styled" : "";
  label.append(`${words} `, input);
  return input;
}

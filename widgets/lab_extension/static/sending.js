/** Submits a script, a notebook or a cell to the pool, after a dialog for its options. */

import { addCommand } from "./commands.js";
import { sendWithOptions } from "./send_dialog.js";
import { OPEN_JOB } from "./tabs.js";
import { clean } from "./visuals/base/words.js";
import { noticeOf } from "./whole_words.js";

const SEND_FILE = "springtide:send-file";
const SEND_CELL = "springtide:send-cell";
const PARAMETERS = "parameters";
const NOT_PYTHON = "Only cells of Python kernels can be sent.";
const NOT_INSTALLED =
  "Nothing was sent: this kernel's Python lacks the package springtide[widgets]. Install it there, choose a kernel that has it (New Environment… in the launcher makes one), or send the whole notebook from the file browser.";
const NO_KERNEL =
  "A cell is sent with the variables of its kernel, and none is running. Start one, or send the whole notebook.";

const NO_CODE = "Only a code cell can run as a job. Select one, or send the whole notebook from the file browser.";

/** Adds the commands to JupyterLab or Notebook. `parts`: `files`, `documents` and `notebooks`, null if the page has none. */
export function addCommands(app, shared, server, parts, icon) {
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
      if (item) await attempted(shared, () => sendFile(item, shared, server, parts.documents, opened));
    },
  });
  const sendActive = {
    label: ({ isPalette }) => (isPalette ? "Send the Active Cell to the Pool…" : label),
    caption: () => (isCode() ? "Run this cell as a job in the shared pool" : NO_CODE),
    isEnabled: isCode,
    isVisible: () => Boolean(notebooks?.currentWidget),
    execute: () => attempted(shared, () => sendCell(notebooks?.currentWidget, shared, server)),
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
async function sendFile({ path, name }, shared, server, documents, opened) {
  const look = (given) => server.preview({ ...sightOf(path, documents), arguments: given });
  const send = async (typed, given) => {
    await saveChanges(path, name, documents);
    const { id, notes } = await server.sendTyped({ path, arguments: given }, typed);
    const apputils = shared["@jupyterlab/apputils"];
    const open = { label: "Open", caption: "Open the job", callback: () => opened(id) };
    const { message, actions } = noticeOf(apputils, [`Sent ${name} to the pool.`, ...notes].join(" "), [open]);
    apputils.Notification.success(message, { actions, autoClose: 8000 });
  };
  await sendWithOptions({ name, look, send }, shared, server);
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
async function sendCell(panel, shared, server) {
  const cell = panel?.content.activeCell;
  const kernel = panel?.sessionContext.session?.kernel;
  if (cell?.model.type !== "code") throw new Error(NO_CODE);
  if (!kernel) throw new Error(NO_KERNEL);
  const { language_info: language } = await kernel.info;
  if (language.name !== "python") throw new Error(`${NOT_PYTHON} This notebook's kernel runs ${clean(language.name)}.`);
  const text = cell.model.sharedModel.getSource();
  const number = cell.model.executionCount;
  const name = number === null ? "this cell" : `cell In [${number}]`;
  const { OutputArea } = shared["@jupyterlab/outputarea"];
  const look = () => server.preview({ cell: text, number });
  const send = async (typed) => {
    const reply = await OutputArea.execute(codeOf(text, typed), cell.outputArea, panel.sessionContext);
    if (reply?.content.status !== "error") return;
    cell.outputArea.model.clear(); // the dialog says it, and asks again
    throw new Error(reply.content.evalue);
  };
  await sendWithOptions({ name, look, send }, shared, server);
}

/** The code that sends a cell and shows its job, or says that the kernel has no package for it. */
function codeOf(text, typed) {
  const given = `get_ipython(), ${JSON.stringify(text)}, ${JSON.stringify(typed)}`;
  return [
    "try:",
    "    import springtide.widgets",
    "except ModuleNotFoundError as error:",
    '    if not (error.name or "").startswith("springtide"): raise',
    `    print(${JSON.stringify(NOT_INSTALLED)}, file=__import__("sys").stderr)`,
    "else:",
    `    display(__import__("springtide.widgets.magics", fromlist=["send_typed"]).send_typed(${given}))`,
  ].join("\n");
}

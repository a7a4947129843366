/** Makes an environment of one's own, with a kernel, and opens a notebook in it. */

import { addCommand } from "./commands.js";
import { patch } from "./visuals/base/dom.js";
import { clean, given } from "./visuals/base/words.js";
import { textField } from "./visuals/views/form_field.js";
import { firstWords } from "./whole_words.js";

const MAKE = "springtide:make-environment";
const ASKED_MS = 1000;
const TILE_COLOUR = "#208ce9";
const NOTHING = { name: "", packages: [] };
const NAME = { label: "Name", placeholder: "bert", help: "Small letters, digits, dots and dashes." };
const PACKAGES = {
  label: "Packages",
  placeholder: "transformers datasets>=3",
  help: "With spaces between. They are added to the packages that all notebooks of this hub have.",
};

/** Adds the command, its tile in the launcher and its entry in the palette. `parts`: null where the page has none. */
export function addEnvironments(app, shared, server, { launcher, palette }, icon) {
  const command = {
    label: "New Environment…",
    caption: "Make an environment of your own, with packages and a kernel",
    execute: async () => {
      let wanted = await askName(shared, NOTHING);
      while (wanted && !(await made(wanted, app, shared, server))) wanted = await askName(shared, wanted);
    },
  };
  addCommand(app, palette, MAKE, command, icon);
  // Among the kernels JupyterLab shows pictures by their address alone.
  const kernelIconUrl = `data:image/svg+xml,${encodeURIComponent(icon.svgstr.replaceAll("#616161", TILE_COLOUR))}`;
  launcher?.add({ command: MAKE, category: "Notebook", rank: 100, kernelIconUrl });
}

/** Makes an environment; promises whether it is there. */
async function made(wanted, app, shared, server) {
  const { Notification, showErrorMessage } = shared["@jupyterlab/apputils"];
  const id = Notification.emit(`Making the environment ${given(wanted.name)}…`, "in-progress", { autoClose: false });
  try {
    let { state, line, kernel, problem } = await server.makeEnvironment(wanted.name, wanted.packages);
    while (state === "making") {
      if (line) Notification.update({ id, message: firstWords(clean(`${wanted.name}: ${line}`)) });
      await new Promise((resolve) => setTimeout(resolve, ASKED_MS));
      ({ state, line, kernel, problem } = await server.environmentProgress(wanted.name));
    }
    if (state === "failed") throw new Error(problem);
    await app.serviceManager.kernelspecs.refreshSpecs();
    Notification.update({
      id,
      message: `The environment ${given(wanted.name)} is ready.`,
      type: "success",
      autoClose: 8000,
    });
    if (app.commands.hasCommand("notebook:create-new"))
      await app.commands.execute("notebook:create-new", { kernelName: kernel, activate: true });
    return true;
  } catch (error) {
    Notification.dismiss(id);
    await showErrorMessage(`The environment ${given(wanted.name)} was not made`, clean(error.message));
    return false;
  }
}

/** Asks for name and packages, which are those of `before` at first; null if nothing is to be made. */
async function askName(shared, before) {
  const { Dialog, showDialog } = shared["@jupyterlab/apputils"];
  const body = new (nameBody(shared["@lumino/widgets"].Widget))(before);
  const buttons = [Dialog.cancelButton(), Dialog.okButton({ label: "Make" })];
  const { button, value } = await showDialog({ title: "New environment", body, buttons, focusNodeSelector: "input" });
  return button.accept ? value : null;
}

/** The fields of the dialog, which look like those of the dialog before a file is sent. */
function nameBody(Widget) {
  return class extends Widget {
    constructor({ name, packages }) {
      super();
      this.addClass("springtide");
      this.addClass("st-send-form");
      this.id = "springtide-environment";
      this.typed = { name, packages: packages.join(" ") };
      patch(this.node, this.#field("name", NAME), this.#field("packages", PACKAGES));
    }

    #field(part, field) {
      const set = (value) => {
        this.typed[part] = value;
      };
      return textField(this, { ...field, name: `environment-${part}`, value: this.typed[part], set });
    }

    getValue() {
      const { name, packages } = this.typed;
      return { name: name.trim(), packages: packages.split(/\s+/).filter(Boolean) };
    }
  };
}

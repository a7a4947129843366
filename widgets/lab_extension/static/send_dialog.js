/** The dialog before a file or a cell is sent: its options in the fields of the form, and what to expect of the job. */

import { h, patch } from "./visuals/base/dom.js";
import { clean } from "./visuals/base/words.js";
import { FormSession } from "./visuals/live/form_session.js";
import { formField, textField } from "./visuals/views/form_field.js";
import { moreOptions, optionFields, parameterFields } from "./visuals/views/job_form.js";

/** The fields that show at once; a project only if there are several. */
const AT_ONCE = new Set(["project", "gpus"]);
/** The element with the focus in the dialog, which takes it back if it leaves: a disabled *Send* could not. */
const FIRST_FOCUS = '[data-testid="form-gpus"]';
const UNFOLDED = "springtide-send-unfolded";

/**
 * Asks for the options of a job until it was sent or the user cancels. After a refusal the dialog has all that was typed,
 * with the reason.
 * @param work its `name`; `look(given)`, which promises its preview: `parameters`, `problems` of those given, `rest`:
 *   whether it takes further arguments, `refusal`; and `send(typed, given)`, which sends it with the options and the
 *   arguments, or throws an error with a message and perhaps a `field`
 */
export async function sendWithOptions(work, shared, server) {
  const { Dialog } = shared["@jupyterlab/apputils"];
  const session = new FormSession(backendOf(work, server));
  session.kind = "notebook";
  session.work.notebook = work.name;
  try {
    session.opening.want(0);
    await session.opening.rest();
    if (session.problem !== null) throw new Error(session.problem);
    await session.checking.rest();
    const Body = optionsBody(shared["@lumino/widgets"].Widget);
    const isChosen = async () => {
      const buttons = [Dialog.cancelButton(), Dialog.okButton({ label: "Send" })];
      const title = `Send ${clean(work.name)} to the pool`;
      const body = new Body(session);
      const dialog = new (checkedDialog(Dialog))({ title, body, buttons, focusNodeSelector: FIRST_FOCUS });
      dialog.check = () => session.checked();
      return (await dialog.launch()).button.accept;
    };
    // closed while it is sent: JupyterLab shows one dialog at a time, and saving a file may open another
    for (let isSent = false; !isSent && (await isChosen()); ) {
      isSent = await work.send(session.filled, session.argumentsToSend).then(
        () => true,
        (error) => session.refuse(error),
      );
    }
  } finally {
    session.stop();
  }
}

function backendOf(work, server) {
  return {
    form: () => server.form(""),
    preview: (_, given) => work.look(given),
    review: (typed) => server.review(typed),
    environment: async () => null,
  };
}

/** A dialog that stays open while `check()` finds its input wrong. */
function checkedDialog(Dialog) {
  return class extends Dialog {
    async resolve(index) {
      const isSent = index === undefined || index > 0;
      if (!isSent || (await this.check())) super.resolve(index);
    }
  };
}

function optionsBody(Widget) {
  return class extends Widget {
    constructor(session) {
      super();
      this.session = session;
      this.isUnfolded = wasUnfolded();
      this.addClass("springtide");
      this.addClass("st-send-form");
      session.changed = () => this.draw();
    }

    onAfterAttach() {
      this.dialog = this.node.closest(".jp-Dialog");
      this.dialog.addEventListener("keydown", (event) => this.stay(event));
      this.draw();
      const gpus = this.node.querySelector(FIRST_FOCUS);
      gpus.addEventListener("focus", () => gpus.select());
    }

    onBeforeDetach() {
      this.session.changed = () => {};
    }

    /** Takes Tab from the last button that is enabled to the first field: the dialog knows only that of its last button. */
    stay(event) {
      const buttons = this.dialog.querySelectorAll(".jp-Dialog-footer button:enabled");
      if (event.key !== "Tab" || event.shiftKey || document.activeElement !== [...buttons].at(-1)) return;
      event.preventDefault();
      this.node.querySelector("select, input").focus();
    }

    /** Draws the fields. The focus never stays on a button that is disabled. */
    draw() {
      const { session } = this;
      const isShown = ({ name, choices }) =>
        name !== "project" || choices.length > 1 || Boolean(session.review.problems.project);
      const fields = optionFields(session).filter(isShown);
      const toggle = (event) => this.keepFold(event.target.open);
      const refusal = session.notebook.refusal ?? "";
      patch(
        this.node,
        h(
          "div",
          { key: "first", class: "st-form-grid" },
          fields.filter(({ name }) => AT_ONCE.has(name)).map((field) => formField(session, field)),
          session.restLabel && lineField(session),
        ),
        session.parameters.length > 0 &&
          h(
            "fieldset",
            { key: "parameters", class: "st-send-parameters" },
            h("legend", { key: "legend" }, "Parameters"),
            h("div", { key: "fields", class: "st-form-grid" }, parameterFields(session)),
          ),
        moreOptions(
          session,
          fields.filter(({ name }) => !AT_ONCE.has(name)),
          { open: this.isUnfolded, on: { toggle } },
        ),
        h(
          "p",
          { key: "refusal", class: "st-field-wrong", role: "alert", "data-testid": "send-refusal" },
          clean(refusal),
        ),
        h(
          "p",
          {
            key: "words",
            class: isRefused(session) ? "st-field-wrong" : null,
            role: "status",
            "data-testid": "send-words",
          },
          refusal ? "" : expected(session),
        ),
      );
      const button = this.dialog.querySelector(".jp-Dialog-footer .jp-mod-accept");
      const isBlocked = session.blocked !== null;
      if (isBlocked && document.activeElement === button) this.node.querySelector(FIRST_FOCUS).focus();
      button.disabled = isBlocked;
    }

    keepFold(isUnfolded) {
      this.isUnfolded = isUnfolded;
      try {
        window.localStorage.setItem(UNFOLDED, isUnfolded ? "yes" : "no");
      } catch {
        // a browser that keeps nothing: the next dialog begins folded
      }
    }
  };
}

/** The arguments of a script. */
function lineField(session) {
  return textField(session, {
    name: "line",
    label: session.restLabel,
    help: "As behind the script in a terminal.",
    code: true,
    wide: true,
    placeholder: "--epochs 30",
    value: session.given["*"] ?? "",
    wrong: session.faultOf("*"),
    set: (text) => session.setArgument("*", text),
  });
}

/** Whether the job was refused for a reason that no field shows. */
function isRefused({ blocked, notice }) {
  return blocked === null && notice?.good === false;
}

/** What keeps the job from being sent or has kept it, else what to expect of it. */
function expected(session) {
  const { blocked, notice, review } = session;
  if (isRefused(session)) return `Nothing was sent: ${clean(notice.words)}`;
  return clean(blocked ?? (review.later || review.estimate?.text || ""));
}

function wasUnfolded() {
  try {
    return window.localStorage.getItem(UNFOLDED) === "yes";
  } catch {
    return false;
  }
}

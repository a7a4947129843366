/** The dialog in which admins make and change a booking, with what it would do while it is filled in. */

import { call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button, submitButton } from "../visuals/base/glyphs.js";
import { clean, clockNow, count, dated, fieldTime, timeZone, typedTime } from "../visuals/base/words.js";

const SETTLED_MS = 500;
const MOST_REASON = 500;
const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const ID = "st-booking";

export class BookingForm {
  /**
   * @param changed called when the dialog has to be drawn again
   * @param made called with the answer to a booking that was made, and whether it is the change of another one
   */
  constructor(changed, made) {
    this.changed = changed;
    this.made = made;
    this.typed = null;
    this.node = null;
  }

  /** Opens the dialog for a booking that there is, or for a new one. `types`: the GPU types, if there are several. */
  open(types, booking = null) {
    this.typed = typedOf(types, booking);
    Object.assign(this, { busy: false, refused: null, preview: null, asked: "" });
    this.#consider();
    this.changed();
  }

  close() {
    clearTimeout(this.timer);
    this.node?.close();
    this.typed = null;
    this.changed();
  }

  /** The dialog; null while it is closed. */
  draw(pool) {
    if (!this.typed) return null;
    const submit = (event) => {
      event.preventDefault();
      return this.#send();
    };
    const cancel = (event) => {
      event.preventDefault();
      this.close();
    };
    const show = (node) => {
      this.node = node;
      if (!node.open) open(node);
      if (this.isSent) node.querySelector('[aria-invalid="true"]')?.focus();
      this.isSent = false;
    };
    return h(
      "dialog",
      {
        key: "booking",
        class: "st-dialog",
        "aria-labelledby": `${ID}-title`,
        "data-testid": "booking-dialog",
        hook: show,
        on: { cancel },
      },
      h("h2", { key: "title", id: `${ID}-title` }, this.typed.replaces ? "Change the booking" : "Book"),
      h(
        "form",
        { key: "form", class: "st-dialog-form", novalidate: "", on: { submit } },
        this.#choice("kind", "What is booked", [
          ["project", "GPUs for a project"],
          ["nodes", "Nodes for a maintenance"],
        ]),
        this.typed.kind === "project" ? this.#projectFields(pool.projects) : this.#nodeFields(pool.nodes),
        this.#choice("comes", "When", [
          ["once", "Once"],
          ["weekly", "Every week"],
        ]),
        this.typed.comes === "once" ? this.#onceFields() : this.#weeklyFields(),
        this.#input("why", "Reason, which everyone sees whose job waits or is paused for it", {
          maxlength: MOST_REASON,
        }),
        this.#effects(),
        h(
          "div",
          { key: "buttons", class: "st-intervention-buttons" },
          button("booking-close", "Not now", () => this.close()),
          submitButton("booking-send", this.typed.replaces ? "Save" : "Book", { disabled: this.busy }),
        ),
      ),
    );
  }

  #set(values) {
    Object.assign(this.typed, values);
    this.refused = null;
    this.#consider();
    this.changed();
  }

  /** Asks what the booking would do, once the typing has paused; not before it has all that it needs. */
  #consider() {
    const body = bodyOf(this.typed);
    const asked = isWhole(body) ? JSON.stringify(body) : "";
    if (asked === this.asked) return;
    Object.assign(this, { asked, preview: null });
    clearTimeout(this.timer);
    if (asked) this.timer = setTimeout(() => this.#ask(asked, body), SETTLED_MS);
  }

  async #ask(asked, body) {
    let preview;
    try {
      preview = await call("POST", "bookings/preview", body);
    } catch (error) {
      preview = { said: [], refused: { message: error.message, field: error.field }, fits_from: null };
    }
    if (asked !== this.asked || !this.typed) return;
    this.preview = preview;
    this.changed();
  }

  async #send() {
    Object.assign(this, { busy: true, refused: null });
    this.changed();
    let answer = null;
    try {
      answer = await call("POST", "bookings", bodyOf(this.typed));
    } catch (error) {
      this.refused = { message: error.message, field: error.field };
    }
    this.busy = false;
    if (answer === null) {
      this.isSent = true;
      this.changed();
      return;
    }
    const isChange = this.typed.replaces !== null;
    this.close();
    this.made(answer, isChange);
  }

  /** The refusal of the booking, or of its preview: its words, and the field beside which they are. */
  #wrong() {
    const refused = this.refused ?? this.preview?.refused;
    if (!refused) return null;
    const isNothing = refused.field === "nodes" && this.typed.kind === "project";
    const name = isNothing ? "project" : (refused.field ?? "").split("[")[0];
    return { field: name, words: [refused.message, this.refused ? "" : refused.hint].filter(Boolean).join(" ") };
  }

  /** What the booking would do, why it is refused if no field is to blame, and the start at which it fits. */
  #effects() {
    const wrong = this.#wrong();
    const { preview } = this;
    const shown = fieldsOf(this.typed);
    const words = wrong && !shown.includes(wrong.field) ? [wrong.words] : (preview?.said ?? []);
    const fits = preview?.fits_from ?? null;
    const waits = this.asked ? "…" : "Say what and until when: its effects show here.";
    return h(
      "div",
      { key: "effects", class: "st-estimate", role: "status", "data-testid": "booking-effects" },
      h("h3", { key: "title", class: "st-estimate-title" }, "What it would do"),
      !preview && !wrong && h("p", { key: "waits", class: "st-muted" }, waits),
      wrong && h("p", { key: "refused", class: "st-problem" }, "It cannot be booked like this."),
      words.map((sentence) => h("p", { key: sentence, class: wrong ? "st-problem" : null }, clean(sentence))),
      fits !== null &&
        h(
          "p",
          { key: "fits" },
          button("booking-fits", `Begin at ${dated(fits)} instead`, () => this.#beginAt(fits)),
        ),
    );
  }

  #beginAt(at) {
    const begins = typedTime(this.typed.start) ?? clockNow();
    const ends = typedTime(this.typed.end);
    this.#set({ start: fieldTime(at), end: fieldTime(at + ends - begins) });
  }

  #projectFields(projects) {
    const names = projects.map(({ name }) => name);
    const { project, gpus, lends } = this.typed;
    const choose = (at, values) =>
      this.#set({ lends: lends.map((each, place) => (place === at ? { ...each, ...values } : each)) });
    const row = (lender, at) =>
      h(
        "div",
        { key: `lender ${at}`, class: "st-dialog-row" },
        this.#select(
          `lender-${at}`,
          "Lent by",
          namesAsChoices(names.filter((name) => name !== project)),
          lender.project,
          (name) => choose(at, { project: name }),
        ),
        this.#numbers(`lent-${at}`, lender.gpus, (of) => choose(at, { gpus: of })),
        button(
          `booking-lender-remove-${at}`,
          "Remove",
          () => this.#set({ lends: lends.filter((_, place) => place !== at) }),
          { "aria-label": `Remove the lender ${clean(lender.project) || at + 1}` },
        ),
      );
    return [
      h(
        "div",
        { key: "project", class: "st-dialog-row" },
        this.#select("project", "Project", namesAsChoices(names), project, (name) => this.#set({ project: name }), {
          autofocus: "",
        }),
        this.#numbers("gpus", gpus, (of) => this.#set({ gpus: of })),
      ),
      this.#reason("gpus"),
      lends.map(row),
      this.#reason("lends"),
      h(
        "p",
        { key: "lend", class: "st-dialog-more" },
        button("booking-lend", "Let another project lend them…", () =>
          this.#set({ lends: [...lends, { project: "", gpus: {} }] }),
        ),
      ),
    ];
  }

  #nodeFields(nodes) {
    const { chosen } = this.typed;
    const toggle = (name, isOn) =>
      this.#set({ chosen: isOn ? [...chosen, name] : chosen.filter((each) => each !== name) });
    const gone = chosen.filter((name) => !nodes.some((node) => node.name === name));
    const all = [...nodes, ...gone.map((name) => ({ name, gpus: [], gpu_type: "" }))];
    return h(
      "fieldset",
      { key: "nodes", class: "st-dialog-nodes", "aria-describedby": `${ID}-nodes-wrong` },
      h("legend", { key: "legend" }, "Nodes, which close for everybody"),
      all.map(({ name, gpus, gpu_type: type }) =>
        h(
          "label",
          { key: name },
          h("input", {
            type: "checkbox",
            checked: chosen.includes(name),
            "data-testid": `booking-node-${name}`,
            on: { change: ({ target }) => toggle(name, target.checked) },
          }),
          ` ${clean(name)} `,
          h("span", { key: "gpus", class: "st-muted" }, count(gpus.length, `${clean(type)} GPU`.trim())),
        ),
      ),
      this.#reason("nodes"),
    );
  }

  #onceFields() {
    return h(
      "div",
      { key: "once", class: "st-dialog-row" },
      this.typed.begun
        ? h("p", { key: "begun", class: "st-field" }, `It holds since ${dated(this.typed.begun)}.`)
        : this.#input("start", "From, or empty for now", { type: "datetime-local" }),
      this.#input("end", "Until", { type: "datetime-local" }),
    );
  }

  #weeklyFields() {
    const { days } = this.typed;
    const toggle = (day, isOn) =>
      this.#set({ days: DAYS.filter((each) => (each === day ? isOn : days.includes(each))) });
    return [
      h(
        "fieldset",
        { key: "days", class: "st-dialog-days", "aria-describedby": `${ID}-every.days-wrong` },
        h("legend", { key: "legend" }, "Days"),
        DAYS.map((day) =>
          h(
            "label",
            { key: day },
            h("input", {
              type: "checkbox",
              checked: days.includes(day),
              "data-testid": `booking-${day}`,
              on: { change: ({ target }) => toggle(day, target.checked) },
            }),
            ` ${day[0].toUpperCase()}${day.slice(1)}`,
          ),
        ),
        this.#reason("every.days"),
      ),
      h(
        "div",
        { key: "times", class: "st-dialog-row" },
        this.#input("every.opens", "From", { type: "time" }),
        this.#input("every.closes", "Until, next day if not later", { type: "time" }),
        this.#input("every.zone", "Time zone", { autocomplete: "off" }),
      ),
    ];
  }

  /** A choice of two or three, as a row of radio buttons. */
  #choice(name, legend, choices) {
    return h(
      "fieldset",
      { key: name, class: "st-choice" },
      h("legend", { key: "legend" }, legend),
      choices.map(([value, words]) =>
        h(
          "label",
          { key: value },
          h("input", {
            type: "radio",
            name,
            value,
            checked: this.typed[name] === value,
            "data-testid": `booking-${name}-${value}`,
            on: { change: () => this.#set({ [name]: value }) },
          }),
          h("span", { key: "words" }, words),
        ),
      ),
    );
  }

  #select(name, label, choices, chosen, choose, more = {}) {
    return this.#field(name, label, (props) =>
      h(
        "select",
        { ...props, ...more, on: { change: ({ target }) => choose(target.value) } },
        [["", "…"], ...choices].map(([value, words]) =>
          h("option", { key: `is ${value}`, value, selected: value === chosen }, words),
        ),
      ),
    );
  }

  /**
   * Fields for numbers of GPUs, one for each type of the pool; `of`: the typed texts by type. Their faults are named
   * below all of them, and marks the first typed one.
   */
  #numbers(name, of, take) {
    const { types } = this.typed;
    const marked = this.#wrongAt(name) ? (types.find((type) => of[type]) ?? types[0]) : null;
    return types.map((type) =>
      this.#field(numberName(name, type), type ? `${clean(type)} GPUs` : "GPUs", (props) =>
        h("input", {
          ...props,
          "aria-invalid": type === marked ? "true" : null,
          "aria-describedby": type === marked ? `${ID}-${name}-wrong` : null,
          type: "number",
          min: 0,
          step: 1,
          value: of[type] ?? "",
          on: { input: ({ target }) => take({ ...of, [type]: target.value }) },
        }),
      ),
    );
  }

  #input(name, label, more = {}) {
    return this.#field(name, label, (props) =>
      h("input", {
        ...props,
        value: this.typed[name],
        ...more,
        on: { input: ({ target }) => this.#set({ [name]: target.value }) },
      }),
    );
  }

  /** A field with its label and its mistake; `draw(props)` returns the element for its value. */
  #field(name, label, draw) {
    const id = `${ID}-${name}`;
    const wrong = this.#wrongAt(name);
    const props = {
      key: "input",
      id,
      class: "st-input",
      "aria-invalid": wrong ? "true" : null,
      "aria-describedby": wrong ? `${id}-wrong` : null,
      "data-testid": `booking-${name}`,
    };
    return h(
      "div",
      { key: name, class: "st-field" },
      h("label", { key: "label", for: id }, label),
      draw(props),
      name !== "gpus" && this.#reason(name),
    );
  }

  /** The mistake of a field. */
  #wrongAt(name) {
    const wrong = this.#wrong();
    return wrong?.field === name ? wrong.words : "";
  }

  #reason(name) {
    const wrong = this.#wrongAt(name);
    const props = { key: `${name} wrong`, id: `${ID}-${name}-wrong`, class: "st-field-wrong", role: "alert" };
    return wrong && h("p", { ...props, "data-testid": `booking-${name}-wrong` }, clean(wrong));
  }
}

function namesAsChoices(names) {
  return names.map((name) => [name, clean(name)]);
}

/** Opens the dialog above the page. One that the address has opened gives the focus to its button when it closes. */
function open(node) {
  const { activeElement, body } = node.ownerDocument;
  if (activeElement === body) node.parentElement.querySelector("button").focus();
  node.showModal();
}

/** The name of the field for a number of a type; that of the only type has none. Types have no spaces here. */
function numberName(name, type) {
  return type ? `${name}-${clean(type).replaceAll(/\s/g, "-")}` : name;
}

/** The fields that a dialog shows, by their names in refusals. */
function fieldsOf({ kind, comes, begun }) {
  const what = kind === "project" ? ["project", "gpus", "lends"] : ["nodes"];
  const once = begun ? ["end"] : ["start", "end"];
  return [...what, ...(comes === "once" ? once : ["every.days", "every.opens", "every.closes", "every.zone"]), "why"];
}

/** What the fields have at first: the values of a booking, or those of a new one. The only type has no name. */
function typedOf(names, booking) {
  const every = booking?.every ?? null;
  const types = names.length ? names : [""];
  return {
    types,
    replaces: booking?.number ?? null,
    kind: booking && !booking.project ? "nodes" : "project",
    comes: every ? "weekly" : "once",
    begun: booking?.begun && !every ? booking.start : null,
    project: booking?.project ?? "",
    gpus: textsOf(booking?.gpus, types),
    lends: Object.entries(booking?.lends ?? {}).map(([project, gpus]) => ({ project, gpus: textsOf(gpus, types) })),
    chosen: booking?.nodes ?? [],
    start: fieldTime(booking && !every ? booking.start : null),
    end: fieldTime(booking && !every ? booking.end : null),
    days: every ? every.days.split(",") : [],
    "every.opens": every?.opens.padStart(5, "0") ?? "",
    "every.closes": every?.closes.padStart(5, "0") ?? "",
    "every.zone": every?.zone ?? timeZone(),
    why: booking?.why ?? "",
  };
}

/** Numbers of GPUs as texts by type. */
function textsOf(gpus, types) {
  if (!gpus) return {};
  const named = typeof gpus === "object" ? Object.entries(gpus) : [[types[0], gpus]];
  return Object.fromEntries(named.map(([type, number]) => [types[0] ? type : "", String(number)]));
}

function amountOf(texts, types) {
  if (!types[0]) return Number(texts[""] ?? 0);
  const typed = Object.entries(texts).filter(([, text]) => text !== "");
  return Object.fromEntries(typed.map(([type, text]) => [type, Number(text)]));
}

/** The typed booking in the form of the API. */
function bodyOf(typed) {
  const { kind, comes, types, begun, project, gpus, lends, chosen, days, why, replaces } = typed;
  const lent = lends.filter((lender) => lender.project).map((lender) => [lender.project, amountOf(lender.gpus, types)]);
  const what =
    kind === "nodes"
      ? { nodes: chosen }
      : { project: project || null, gpus: amountOf(gpus, types), lends: Object.fromEntries(lent) };
  const [opens, closes, zone] = ["opens", "closes", "zone"].map((part) => typed[`every.${part}`]);
  const when =
    comes === "weekly"
      ? { every: { days: days.join(","), opens, closes, zone } }
      : { start: begun ? null : typedTime(typed.start), end: typedTime(typed.end) };
  return { ...what, ...when, why, replaces };
}

/** Whether a booking has all without which no answer could be given. */
function isWhole({ nodes, project, gpus, every, end }) {
  const numbers = typeof gpus === "object" ? Object.values(gpus) : [gpus];
  const isNamed = nodes ? nodes.length > 0 : project !== null && numbers.some((number) => number > 0);
  return isNamed && (every ? Boolean(every.days && every.opens && every.closes && every.zone) : end !== null);
}

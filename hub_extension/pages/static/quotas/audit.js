/** The audit trail: user, old and new value of each change, and undo unless the value has changed since. */

import { saveFile } from "../saving.js";
import { attempted, call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button, emptyState, when } from "../visuals/base/glyphs.js";
import { calmly, inOrder } from "../visuals/base/pace.js";
import { clean, clockNow, dated, exact, exactDuration, startOfDay, typedTime } from "../visuals/base/words.js";
import { valueWords } from "./project_table.js";

const WORDS = {
  "project.create": "added project",
  "project.change": "changed project",
  "project.delete": "deleted project",
  "person.change": "changed person",
  "member.add": "added a member to",
  "member.remove": "removed a member from",
  "lead.add": "added a lead to",
  "lead.remove": "removed a lead from",
  "undo.lead.add": "took back adding a lead to",
  "undo.lead.remove": "took back removing a lead from",
  "undo.project.create": "took back adding project",
  "undo.project.change": "took back a change of project",
  "undo.project.delete": "took back deleting project",
  "undo.person.change": "took back a change of person",
  "undo.member.add": "took back adding a member to",
  "undo.member.remove": "took back removing a member from",
  "undo.project.freeze": "took back freezing project",
  "undo.project.unfreeze": "took back unfreezing project",
  "undo.project.budget": "took back a change of the budget of",
  "undo.node.drain": "took back draining the node",
  "undo.node.undrain": "took back undraining the node",
  "undo.gpu.drain": "took back draining the",
  "undo.gpu.undrain": "took back undraining the",
  "undo.idle_rule.change": "took back a change of the rule for idle workspaces of",
  "undo.job.hold": "took back a hold of the job",
  "undo.job.release": "took back releasing the job",
  "undo.job.edit": "took back an edit of the job",
  "node.drain": "drained the node",
  "node.undrain": "undrained the node",
  "gpu.drain": "drained the",
  "gpu.undrain": "undrained the",
  "gpu.free": "freed the GPUs of",
  "gpu.end_holder": "ended on GPUs without a place",
  "pool.gpu_types": "found other GPU types in the",
  "person.leave": "has no user any more:",
  "person.rename": "renamed the user, now",
  "booking.make": "booked",
  "undo.booking.make": "took back a booking of",
  "booking.begin": "began the booking of",
  "booking.end": "ended the booking of",
  "booking.miss": "was away for the whole booking of",
  "booking.change": "changed the booking of",
  "booking.cancel": "cancelled the booking of",
  "undo.booking.change": "took back a change of the booking of",
  "undo.booking.cancel": "took back cancelling the booking of",
  "request.make": "asked for more:",
  "request.approve": "approved the request of",
  "request.refuse": "refused the request of",
  "request.withdraw": "withdrew the request of",
  "request.expire": "let expire the request of",
  "request.close": "ended the request of",
  "need.leave": "left for a time",
  "need.show": "showed again",
  "need.tell": "notified the owner about",
  "preset.set": "defined the preset",
  "preset.delete": "deleted the preset",
  "undo.preset.set": "took back a change of the preset",
  "undo.preset.delete": "took back deleting the preset",
  "project.budget": "changed the budget of",
  "budget.spent": "found the budget spent of",
  "job.hold": "put on hold the job",
  "job.release": "released the job",
  "job.edit": "edited the job",
  "job.give": "handed over the job",
  "job.delete": "deleted the job",
  "job.marks": "changed the marks of the job",
  "project.freeze": "froze the project",
  "project.unfreeze": "unfroze the project",
  "ending.refused": "could not give back the value before of",
  "workspace.stop": "stopped the workspace",
  "workspace.keep": "kept the workspace",
  "idle_rule.change": "changed the rule for idle workspaces of",
  "job.cancel": "cancelled the job",
  "job.tags": "changed the tags of the job",
  "job.pause": "paused the job",
  "job.resume": "resumed the job",
  "job.finish": "marked as finished the job",
  "job.retry": "retried failed trials of the sweep",
  "job.edit_trials": "changed the trials of the sweep",
  "job.read_log": "read the log of the job",
  "job.exec": "ran a program in the job",
  "job.read_stack": "read the stacks of the job",
  "job.read_outputs": "read the files of the job",
};

const KINDS = [
  ["", "anything"],
  ["job", "jobs"],
  ["project", "projects"],
  ["member", "members"],
  ["lead", "leads"],
  ["person", "people"],
  ["node", "nodes"],
  ["gpu", "GPUs"],
  ["preset", "presets"],
  ["booking", "bookings"],
  ["drain", "drains"],
  ["request", "requests"],
  ["workspace", "workspaces"],
  ["idle_rule", "rules of workspaces"],
];
/** Fields that are times: the end of a change, the start and the end of a booking. */
const TIMES = new Set(["until", "start", "end"]);
/** Fields that are durations, in seconds. */
const DURATIONS = new Set(["tell_after", "notice", "unused", "time_limit"]);
/** Values before a change that say what it is about, and that nothing follows. */
const ABOUT = new Set(["wanted"]);
/** Values that an undo needs, and that say nothing to people, or that other values of the entry say in words. */
const DATA = new Set(["age", "every", "endings"]);
/** Numbers of the GPU types that a table does not name, by the field that it is of. */
const UNNAMED = { quota: 0, build_quota: 0, limit: null };
const CALM_S = 0.4;
/** Entries of bookings that are shorter show their times to the second. */
const MINUTE_S = 60;
/** The most entries that are shown without a click. */
const FIRST = 20;

export class AuditTrail {
  /**
   * @param changed called when the trail has to be drawn again
   * @param undone called after an undo: resolves when the restored values were read
   */
  constructor(changed, undone) {
    this.changed = changed;
    this.undone = undone;
    this.items = null;
    this.next = null;
    this.busy = false;
    this.filters = fromAddress();
    this.turn = 0;
    this.read = inOrder(
      () => this.#ask(),
      (page) => this.#take(page),
    );
    this.readChosen = calmly(() => this.read(), CALM_S);
  }

  /** Promises the newest page of the chosen entries. */
  async #ask() {
    const { turn } = this;
    const page = await attempted(() => call("GET", `audit?${this.#query({ limit: FIRST })}`));
    return page && { ...page, turn };
  }

  #query(more = {}) {
    const { who, what, project, from, to } = this.filters;
    const chosen = { who: who.trim(), what, project, start: startOf(from, 0), end: startOf(to, 1), ...more };
    return new URLSearchParams(Object.entries(chosen).filter(([, value]) => value !== "" && value !== null));
  }

  /** Chooses other entries: those shown go once the others are read. */
  #choose(name, value) {
    this.filters = { ...this.filters, [name]: value };
    this.turn += 1;
    this.readChosen();
    this.changed();
  }

  /** Takes the newest page; older ones already shown stay. */
  #take(page) {
    if (page.turn !== this.turn) return;
    const same = page.turn === this.shownTurn;
    this.shownTurn = page.turn;
    const oldest = page.items.at(-1)?.id ?? Infinity;
    const older = same ? (this.items ?? []).filter((entry) => entry.id < oldest) : [];
    this.items = [...page.items, ...older];
    if (!older.length) this.next = page.next;
    this.changed();
  }

  async #more() {
    await this.#alone(async () => {
      const page = await attempted(() => call("GET", `audit?${this.#query({ cursor: this.next })}`));
      if (!page) return;
      this.items = [...this.items, ...page.items];
      this.next = page.next;
    });
  }

  async #undo(id) {
    await this.#alone(async () => {
      await attempted(() => call("POST", `audit/${id}/undo`));
      await this.undone();
    });
  }

  /** Runs `work`; the buttons are disabled until its effect is visible. */
  async #alone(work) {
    if (this.busy) return;
    this.busy = true;
    this.changed();
    await work();
    this.busy = false;
    this.changed();
  }

  /** The trail, as a description; null until it was read. `projects` are those that it can be narrowed to. */
  draw(projects) {
    if (!this.items) return null;
    return h("div", { key: "trail" }, this.#filterForm(projects), this.#list());
  }

  #filterForm(projects) {
    const { filters } = this;
    const on = (name, event) => ({ [event]: ({ target }) => this.#choose(name, target.value) });
    const field = (name, label, type) =>
      h(
        "label",
        { key: name },
        `${label} `,
        h("input", {
          type,
          class: "form-control form-control-sm w-auto",
          value: filters[name],
          "data-testid": `audit-${name}`,
          on: on(name, "input"),
        }),
      );
    const choice = (name, label, choices) =>
      h(
        "label",
        { key: name },
        `${label} `,
        h(
          "select",
          { class: "form-select form-select-sm w-auto", "data-testid": `audit-${name}`, on: on(name, "change") },
          withChosen(choices, filters[name]).map(([value, words]) =>
            h("option", { key: `is ${value}`, value, selected: value === filters[name] }, words),
          ),
        ),
      );
    return h(
      "div",
      { key: "filters", class: "st-audit-filters", role: "search", "aria-label": "Entries" },
      field("who", "Who", "text"),
      choice("what", "What", KINDS),
      choice("project", "Project", [["", "any"], ...projects.map(({ name }) => [name, clean(name)])]),
      field("from", "From", "date"),
      field("to", "To", "date"),
      h(
        "button",
        {
          key: "csv",
          type: "button",
          class: "st-button",
          "data-testid": "audit-csv",
          on: { click: () => this.#save() },
        },
        "Download CSV",
      ),
    );
  }

  /** Saves all chosen entries as a file. */
  #save() {
    return saveFile(`audit.csv?${this.#query()}`, "audit.csv");
  }

  #list() {
    const { who, what, project, from, to } = this.filters;
    if (!this.items.length && (who || what || project || from || to))
      return emptyState("No entry matches.", "Choose another person, kind, project or time.");
    if (!this.items.length)
      return emptyState("There are no changes yet.", "Each change shows here with who made it, and can be taken back.");
    const now = clockNow();
    return h(
      "div",
      { key: "entries" },
      h(
        "ol",
        { key: "list", class: "st-audit", "data-testid": "audit" },
        this.items.map((entry) => this.#entry(entry, now)),
      ),
      this.next &&
        h(
          "button",
          {
            key: "more",
            type: "button",
            class: "st-button st-more",
            disabled: this.busy,
            on: { click: () => this.#more() },
          },
          "Show older changes",
        ),
    );
  }

  #entry(entry, now) {
    return h(
      "li",
      { key: entry.id, "data-testid": "audit-row" },
      when(entry.at, now, "at"),
      h(
        "span",
        { key: "what" },
        h("strong", {}, clean(entry.who)),
        ` ${WORDS[entry.what] ?? clean(entry.what)} `,
        h("strong", {}, clean(entry.subject)),
        changes(entry),
      ),
      entry.undo
        ? button(`audit-undo-${entry.id}`, "Undo", () => this.#undo(entry.id), { disabled: this.busy })
        : h("span", { key: "none" }),
    );
  }
}

/** The choices with the one that a link names, of a project that was deleted since or a kind of one entry. */
function withChosen(choices, chosen) {
  return choices.some(([value]) => value === chosen) ? choices : [...choices, [chosen, clean(chosen)]];
}

/** The filters that a link to the page names, such as `?project=vision`, and empty ones. */
function fromAddress() {
  const query = new URLSearchParams(window.location.search);
  return Object.fromEntries(["who", "what", "project", "from", "to"].map((name) => [name, query.get(name) ?? ""]));
}

/** The beginning of a typed day in seconds since the epoch, `days` later; null for none. */
function startOf(day, days) {
  return day ? startOfDay(typedTime(day), days) : null;
}

function changes(entry) {
  const fields = [...new Set([...Object.keys(entry.before), ...Object.keys(entry.after)])].filter(
    (field) => !DATA.has(field),
  );
  const said = fields.filter((field) => ![entry.before[field], entry.after[field]].every(isUnsaid));
  const differ = said.filter((field) => JSON.stringify(entry.before[field]) !== JSON.stringify(entry.after[field]));
  const over = !isOfJob(entry) && !Object.keys(entry.after).length && !said.every((field) => ABOUT.has(field));
  // The end of a change alone says nothing without what ends.
  const shown = differ.every((field) => TIMES.has(field)) ? said : differ;
  return shown.map((field, place) => [place ? ", " : over ? ": before: " : ": ", drawChange(field, entry)]);
}

/** Whether a value says as little as none: an option that was not chosen, or no text. */
function isUnsaid(value) {
  return value === undefined || value === false || value === "";
}

function isOfJob({ what }) {
  return what.replace(/^undo[.]/, "").startsWith("job.");
}

/** A table of GPU types with all types that it has before or after a change; other values as they are. */
function whole(field, value, before, after) {
  if (!(field in UNNAMED) || ![before, after].every((each) => each !== null && typeof each === "object")) return value;
  const types = Object.keys({ ...before, ...after });
  return Object.fromEntries(types.map((type) => [type, type in value ? value[type] : UNNAMED[field]]));
}

/** The values of a change; of two lists, such as the members of a project, only the entries that the other one lacks. */
function differing(field, { before, after }) {
  const lists = [before[field], after[field]];
  if (!lists.every(Array.isArray)) return { before, after };
  const [left, come] = [0, 1].map((at) => lists[at].filter((name) => !lists[1 - at].includes(name)));
  if (!left.length && !come.length) return { before, after };
  return {
    before: left.length ? { ...before, [field]: left } : {},
    after: come.length ? { ...after, [field]: come } : {},
  };
}

function drawChange(field, entry) {
  const { before, after } = differing(field, entry);
  const title = clean(field).replaceAll("_", " ");
  const isShort = [before, after].some(({ start, end }) => end - start < MINUTE_S);
  const words = (value) => {
    if (TIMES.has(field) && value) return (isShort ? exact : dated)(value);
    if (DURATIONS.has(field) && typeof value === "number") return exactDuration(value);
    return valueWords(whole(field, value, before[field], after[field]));
  };
  const same = field in before && JSON.stringify(before[field]) === JSON.stringify(after[field]);
  const isAbout = (isOfJob(entry) || ABOUT.has(field)) && !(field in after);
  const isGone = !isAbout && !(field in after) && Object.keys(after).length > 0;
  const was = field in before && !same && h(isAbout ? "span" : "del", { key: "was" }, words(before[field]));
  const is =
    (field in after && h(same ? "span" : "ins", { key: "is" }, words(after[field]))) ||
    (isGone && h("ins", { key: "is" }, "none"));
  return h("span", { key: field, class: "st-change" }, `${title} `, was, was && is && " → ", is);
}

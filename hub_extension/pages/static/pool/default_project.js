/** The viewer's default project for jobs that name none; shown to members of several projects. */

import { attempted, call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { clean } from "../visuals/base/words.js";

export class DefaultProject {
  /** @param changed called when the choice has to be drawn again */
  constructor(changed) {
    this.changed = changed;
    this.me = null;
  }

  /** Takes the viewer (`Me`) from the API; null if it did not answer. */
  take(me) {
    this.me = me ?? this.me;
  }

  /** The choice; nothing for a member of one project without a choice. */
  draw() {
    const { projects, default_project: chosen } = this.me ?? { projects: [], default_project: null };
    if (projects.length < 2 && chosen === null) return null;
    const lost = chosen !== null && projects.every(({ name }) => name !== chosen);
    const words = new Map([["", projects.length > 1 ? "as my latest job" : "my only project"]]);
    if (lost) words.set(chosen, `${clean(chosen)} (no longer mine)`);
    for (const { name } of projects) words.set(name, clean(name));
    return [
      h(
        "label",
        { key: "default", class: "st-span" },
        "My default project ",
        h(
          "select",
          {
            class: "form-select form-select-sm",
            value: chosen ?? "",
            "aria-describedby": lost ? "default-lost" : null,
            "data-testid": "default-project",
            on: { change: (event) => this.#choose(event.target) },
          },
          [...words].map(([value, text]) =>
            h("option", { key: value, value, selected: value === (chosen ?? "") }, text),
          ),
        ),
      ),
      lost &&
        h(
          "p",
          { key: "lost", id: "default-lost", class: "st-problem", role: "status", "data-testid": "default-lost" },
          `You are no longer in ${clean(chosen)}: jobs that name no project are refused until you choose another one here.`,
        ),
    ];
  }

  async #choose(select) {
    const me = await attempted(() => call("PATCH", "me", { default_project: select.value || null }));
    if (me) this.me = me;
    else select.value = this.me.default_project ?? "";
    this.changed();
  }
}

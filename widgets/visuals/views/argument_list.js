/** The arguments of a job: in one line of its card, and as a list on its page. */

import { h } from "../base/dom.js";
import { amount, clean } from "../base/words.js";

const SHOWN = 8;

/** The value of an argument in words; numbers as they were given. */
export function argumentWords({ value, type, hidden }) {
  if (hidden) return "hidden";
  if (value === null || value === undefined) return "None";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : amount(value);
  return clean(String(value)) || (type ? clean(type) : "“”");
}

/** The job's arguments that no trial's line has. */
function ownOf(job) {
  const parameters = job.outcome?.parameters ?? {};
  return Object.entries(job.arguments ?? {}).filter(([name]) => !(name in parameters));
}

/** The line of a card; nothing for a job without arguments. */
export function argumentsLine(job) {
  const own = ownOf(job);
  if (!own.length) return null;
  const words = ([name, argument]) => `${clean(name)} ${argumentWords(argument)}`;
  return h(
    "p",
    {
      key: "arguments",
      class: "st-muted st-arguments",
      title: own.map(words).join("\n"),
      "data-testid": "job-arguments",
    },
    own.slice(0, SHOWN).map(words).join(" · "),
    own.length > SHOWN && ` · ${own.length - SHOWN} more`,
  );
}

/** All arguments as a list. */
export function drawArguments(job) {
  return h(
    "dl",
    { class: "st-facts", "data-testid": "arguments" },
    Object.entries(job.arguments).map(([name, argument]) =>
      h(
        "div",
        { key: name },
        h("dt", {}, clean(name)),
        h(
          "dd",
          {
            class: argument.hidden ? "st-muted" : null,
            title: argument.hidden
              ? "Its name is that of a secret, so its value is not shown."
              : clean(argument.type ?? ""),
          },
          argumentWords(argument),
        ),
      ),
    ),
  );
}

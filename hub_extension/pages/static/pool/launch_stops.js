/** The reasons why launching has stopped: the jobs concerned, and the message of cluster or machine. */

import { h } from "../visuals/base/dom.js";
import { clean, count } from "../visuals/base/words.js";

/** The list of launch stops. */
export function drawLaunchStops(stops) {
  return h(
    "ul",
    { key: "stops", class: "st-plain st-problem", role: "status", "data-testid": "launch-stops" },
    stops.map((stop) =>
      h(
        "li",
        { key: `${stop.scope} ${stop.name} ${stop.detail}` },
        wordsOf(stop).map((words) => h("p", { key: words, class: "mb-1" }, words)),
      ),
    ),
  );
}

function wordsOf({ scope, name, kept, withheld, detail }) {
  const whose = { image: ` in the image ${clean(name)}`, user: ` of ${clean(name)}` }[scope] ?? "";
  return [
    `${count(kept, "job")}${whose} could not be started, for reasons outside them.`,
    clean(detail),
    `${count(withheld, "waiting job")} ${withheld === 1 ? "is" : "are"} not tried meanwhile. The pool tries a start from time to time; once one works, the others follow by themselves.`,
  ];
}

/** The notebook's live card: traits `job`, `points`, `log`, `trials`, `notice`, `colour` and `simulated`. */

import { isFinal } from "../base/glyphs.js";
import { wordsLast } from "../base/job_words.js";
import { keepKeys } from "../base/keys.js";
import { whileInSight } from "../base/pace.js";
import { clockNow } from "../base/words.js";
import { renderWorkCard } from "../views/work_card.js";
import { hearKernel, keepFresh, SILENT_KERNEL } from "./freshness.js";

const CARD_TRAITS = ["job", "points", "log", "trials", "notice", "colour", "simulated"];
const READING = "Reading the log…";
const SILENT_S = 12;

export const cardWidget = {
  initialize({ model }) {
    hearKernel(model);
  },
  render({ model, el }) {
    const card = document.createElement("article");
    keepKeys(card);
    el.append(card);
    const send = (action) => () => model.send({ action });
    const actions = {
      pause: send("pause"),
      resume: send("resume"),
      cancel: send("cancel"),
      end: send("end"),
      finish: send("finish"),
      retry: send("retry"),
      rerun: send("rerun"),
    };
    let silentSince = null;
    const drawing = () => {
      const job = model.get("job");
      if (!job?.id) return;
      const [points, log, rows, notice, colour, simulated] = CARD_TRAITS.slice(1).map((name) => model.get(name));
      const blocked = silentSince === null ? null : SILENT_KERNEL;
      renderWorkCard(
        card,
        {
          job,
          points,
          log: log ?? "",
          reading: log === null ? READING : null,
          rows,
          notice,
          colour,
          simulated,
          blocked,
          now: silentSince ?? clockNow(),
        },
        actions,
      );
    };
    const { draw, stop: stopDrawing } = whileInSight(card, drawing, () => wordsLast(model.get("job"), clockNow()));
    const silent = (is) => {
      if (is === (silentSince !== null)) return;
      silentSince = is ? clockNow() - SILENT_S : null;
      draw();
    };
    for (const name of CARD_TRAITS) model.on(`change:${name}`, draw);
    const stop = keepFresh(model, () => isFinal(model.get("job")?.state), silent);
    return () => {
      stopDrawing();
      stop();
      for (const name of CARD_TRAITS) model.off(`change:${name}`, draw);
    };
  },
};

export default cardWidget;

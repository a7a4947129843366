/** Secondary parts of a job's page: attempts, source and request. */

import { tagPath } from "../site.js";
import { dataCells, dataTable } from "../table.js";
import { borrowedWords } from "../visuals/base/borrowing.js";
import { h } from "../visuals/base/dom.js";
import { isFinal, stateMark, tagWord, when } from "../visuals/base/glyphs.js";
import { askWords, checkpointWords, expectedWords, priorityWords, sentencesOf } from "../visuals/base/job_words.js";
import { trialWords } from "../visuals/base/sweep_words.js";
import { amount, clean, cleanLines, count, duration, lasted } from "../visuals/base/words.js";

const ELSEWHERE = new Set([
  "gpus",
  "workers",
  "min_workers",
  "priority",
  "preemptible",
  "tags",
  "retries",
  "env",
  "requirements",
  "test_run",
]); // options that other rows and sections have
const CHECKPOINTS_GONE = "its checkpoints were deleted, or are damaged";
const ATTEMPT_HEADS = ["attempt", "state", "started", "ran for", "GPUs", "why it started", "why it stopped"];
const ATTEMPT_CLASSES = { GPUs: "st-wraps", "why it started": "st-across", "why it stopped": "st-across" };

/** The table of a job's attempts, the newest first. */
export function drawAttempts(job, now) {
  if (!job.attempts.length)
    return h(
      "p",
      { class: "st-muted", "data-testid": "no-attempts" },
      isFinal(job.state)
        ? "None: the job ended before it started."
        : "None yet: the first one begins when the job starts.",
    );
  return dataTable(
    "attempts",
    ATTEMPT_HEADS,
    job.attempts.toReversed().map((attempt) => drawAttemptRow(attempt, now)),
    { classes: "st-attempts" },
  );
}

function drawAttemptRow(attempt, now) {
  const from = attempt.started ?? attempt.created;
  const resumed = Number.isFinite(attempt.resumed_from) && `Resumed from step ${amount(attempt.resumed_from)}.`;
  const cells = [
    attempt.number,
    stateMark(attempt),
    when(from, now),
    lasted(from, attempt.ended, now),
    attemptGpus(attempt, now),
    [...sentencesOf(attempt.why), resumed].filter(Boolean).join(" "),
    [...sentencesOf(attempt.ended_why), exitWords(attempt)].filter(Boolean).join(" "),
  ];
  const props = { key: attempt.number, "data-testid": "attempt-row" };
  return h("tr", props, dataCells(ATTEMPT_HEADS, cells, ATTEMPT_CLASSES));
}

function attemptGpus(attempt, now) {
  const { gpus, gpu_type: type } = attempt;
  if (!gpus.length) return "none";
  const borrowed = borrowedWords(attempt, now);
  const places = gpus.map((gpu) => clean(gpu.label)).join(", ");
  return [
    h("span", { key: "count", title: places }, count(gpus.length, type ? `${clean(type)} GPU` : "GPU")),
    borrowed && h("span", { key: "borrowed", class: "st-muted" }, `, ${borrowed}`),
  ];
}

function exitWords(attempt) {
  if (attempt.state === "paused" || saysExit(attempt.ended_why)) return "";
  if (attempt.exit_signal) return `Ended by signal ${attempt.exit_signal}.`;
  return attempt.exit_code ? `Exit code ${attempt.exit_code}.` : "";
}

/** Whether a reason includes the exit status of the process. */
function saysExit(why) {
  return why?.params?.code !== undefined || why?.params?.signal !== undefined;
}

/** The source of a job with its call and its command; for a plain command only that. */
export function drawSource(job) {
  const root = job.environment?.tree?.root;
  const typed = (word) => word.replaceAll("{project_tree}/.outside/", "/").replaceAll("{project_tree}", root);
  const words = root ? job.argv.map(typed) : job.argv;
  const command = words.map(quoted).join(" ");
  const source = cleanLines(job.source ?? "").trim();
  const argv = h("pre", { key: "argv", class: "st-log st-code", tabindex: 0, "data-testid": "job-argv" }, command);
  if (!source || source === command) return argv;
  return [
    h(
      "pre",
      { key: "source", class: "st-log st-code", tabindex: 0, "data-testid": "job-source" },
      cleanLines(job.source),
    ),
    h("details", { key: "command" }, h("summary", {}, "The command that runs it"), argv),
  ];
}

function quoted(part) {
  const words = cleanLines(part);
  return /^[\w@%+=:,./{}-]+$/.test(words) ? words : `'${words.replaceAll("'", `'"'"'`)}'`;
}

/** The request of the job and the resources it held, as a list. */
export function drawFacts(job, now) {
  const { options } = job;
  const facts = [
    ["GPUs", askWords(job)],
    ["Kind", clean(job.kind)],
    ["Project", clean(job.project)],
    ["User", clean(job.user)],
    ...(options.tags.length
      ? [
          [
            "Tags",
            options.tags.map((tag) => [
              h("a", { key: tag, href: tagPath(tag), "data-testid": "job-tag" }, tagWord(tag)),
              " ",
            ]),
          ],
        ]
      : []),
    [
      "Priority",
      `${priorityWords(options.priority)}, ${options.preemptible && options.gpus ? "may be paused for others" : "never paused for others"}`,
    ],
    ...job.chosen.filter(({ name }) => !ELSEWHERE.has(name)).map(({ label, text }) => [label, cleanLines(text)]),
    ["Submitted", when(job.submitted, now)],
    ["First started", job.started ? when(job.started, now) : isFinal(job.state) ? "never" : "not yet"],
    ...(job.trials
      ? []
      : [["Last saved", job.saved ? when(job.saved, now) : job.checkpoints_deleted ? CHECKPOINTS_GONE : "never"]]),
    ...(job.checkpoint ? [["Checkpoint", checkpointWords(job, now)]] : []),
    ...(job.usual_runtime ? [["Expected run time", expectedWords(job, now)]] : []),
    [
      "Failures",
      `${job.failures || "none"}, ${options.retries ? count(options.retries, "retry", "retries") : "no retries"} allowed`,
    ],
    ["GPU time held", duration(job.gpu_seconds)],
    ...(Number.isInteger(job.trial)
      ? [["Trial", trialWords({ trial: job.trial, parameters: job.outcome?.parameters })]]
      : []),
    ["Id", job.id],
  ];
  return h(
    "dl",
    { class: "st-facts" },
    facts.map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))),
  );
}

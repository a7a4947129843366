/** Hand-written wire data of sweeps: susan tries learning rates, depths and optimizers, and some of it goes wrong. */

import { HOSTILE, job, NOW, options } from "/story.js";

const OPTIMIZERS = ["adam", "sgd", "adamw"];
const FIXED = {
  parameters: null,
  value: null,
  values: {},
  step: null,
  of: null,
  curve: [],
  attempt: 0,
  started: null,
  ended: null,
  gpu_seconds: 0,
  borrowed: 0,
  error: "",
};

/** A number from 0 to 1 that looks drawn by lot, the same each time. */
const lot = (seed) => ((Math.sin(seed * 12.9898) * 43758.5453) % 1 ** 2) / 2 + 0.5;

/** A trial of a sweep in a table. */
export function trialRow(trial, changes = {}) {
  return { ...FIXED, trial, state: "queued", job: null, ...changes };
}

function begun(trial, state) {
  const parameters = {
    lr: Number((10 ** (-4 + 3 * lot(trial + 1))).toPrecision(3)),
    depth: 1 + Math.floor(6 * lot(trial + 50)),
    optimizer: OPTIMIZERS[trial % 3],
  };
  const base = 0.03 + 0.12 * Math.abs(Math.log10(parameters.lr) + 2) + 0.02 * Math.abs(parameters.depth - 3);
  const steps = { running: 6, pruned: 4, failed: 3 }[state] ?? 20;
  const curve = Array.from({ length: steps }, (_, step) => [
    step + 1,
    Number((base + 1.8 * Math.exp(-step / 4)).toPrecision(4)),
  ]);
  const ended = state === "running" || state === "paused" ? null : NOW - 900 + 10 * trial;
  return trialRow(trial, {
    state,
    job: `j20t${trial}`,
    parameters,
    value: curve.at(-1)[1],
    values: { loss: curve.at(-1)[1] },
    step: steps,
    of: 20,
    curve,
    attempt: trial % 7 === 3 ? 2 : 1,
    started: NOW - 1200,
    ended,
    borrowed: state === "running" && trial % 2 ? 1 : 0,
    error: state === "failed" ? "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB on GPU 0" : "",
  });
}

/** The rows of a sweep of 60 trials, of which 30 have begun. */
export function trialRows(number = 60, begins = 30) {
  const stateOf = (trial) =>
    trial >= begins - 5
      ? "running"
      : trial === begins - 6
        ? "paused"
        : trial % 9 === 4
          ? "failed"
          : trial % 5 === 2
            ? "pruned"
            : "succeeded";
  return Array.from({ length: number }, (_, trial) =>
    trial < begins ? begun(trial, stateOf(trial)) : trialRow(trial),
  );
}

/** The counts of a sweep's trials, from their rows. */
export function countsOf(rows, changes = {}) {
  const of = (state) => rows.filter((row) => row.state === state).length;
  const ended = rows
    .filter(({ state, value }) => state === "succeeded" && Number.isFinite(value))
    .sort((one, other) => one.value - other.value || one.trial - other.trial);
  const best = ended.length
    ? { trial: ended[0].trial, job: ended[0].job, value: ended[0].value, parameters: ended[0].parameters }
    : null;
  return {
    number: rows.length,
    queued: of("queued"),
    running: of("running"),
    paused: of("paused"),
    succeeded: of("succeeded"),
    pruned: of("pruned"),
    failed: of("failed"),
    cancelled: of("cancelled"),
    gpus: of("running"),
    borrowed: rows.reduce((sum, row) => sum + row.borrowed, 0),
    at_most: null,
    at_least: 1,
    metric: "loss",
    goal: "minimize",
    best,
    ...changes,
  };
}

/** The job of a sweep, from the rows of its trials. */
export function sweep(rows, counts = {}, changes = {}) {
  const sentences = [
    { role: "state", text: "5 of its trials run on 5 GPUs, 3 of them borrowed; 24 of 60 have ended." },
    { role: "next", text: "One trial waits: the project vision holds all GPUs that it may." },
  ];
  const reason = { code: "sweep", text: sentences.map(({ text }) => text).join(" "), sentences, params: {} };
  return job({
    id: "j20",
    name: "digits-sweep",
    options: options({ gpus: 1 }),
    held: [],
    attempt: 0,
    attempts: [],
    progress: { step: null, of: null, at: null, values: {} },
    saved: null,
    saved_step: null,
    sweep: null,
    trial: null,
    outcome: null,
    reason,
    trials: countsOf(rows, counts),
    ...changes,
  });
}

const rows = trialRows();
const alone = trialRows(40, 40).map((row) => ({
  ...row,
  state: "succeeded",
  borrowed: 0,
  error: "",
  parameters: { lr: row.parameters.lr },
}));
const unbegun = trialRows(12, 0);
const FOR_OWNER = "Paused for a job of “owner”.";
const PAUSES = {
  2: { times: 2, seconds: 240, since: null, lost_gpu_seconds: 60, why: { [FOR_OWNER]: 2 } },
  9: { times: 2, seconds: 60, since: NOW - 120, lost_gpu_seconds: 0, why: { [FOR_OWNER]: 1, "Paused by “joe”.": 1 } },
};
/** Four members in three generations: the last member continues as a copy of the second one. */
const population = trialRows(12, 12).map((row, trial) => {
  const [member, generation] = [trial % 4, Math.floor(trial / 4) + 1];
  const copies = member === 3 && generation === 2;
  const value = [0.8, 0.4, 0.6, 0.9][copies || (member === 3 && generation === 3) ? 1 : member] / generation;
  return {
    ...row,
    state: "succeeded",
    error: "",
    borrowed: 0,
    member,
    generation,
    parent: generation === 1 ? null : copies ? 1 : trial - 4,
    copied_from: copies ? 1 : null,
    parameters: { lr: member === 3 && generation > 1 ? 0.08 : 0.1 + member },
    value: member === 3 && generation === 3 ? 0.1 : value,
    pauses: PAUSES[trial] ?? null,
  };
});
const OF_FOUR = { members: 4, generation: 3, generations: 3, every: 10, quantile: 0.25, resample: 0.25, seed: 0 };
const hostile = [
  trialRow(0, {
    state: "succeeded",
    job: "j23t0",
    parameters: { [HOSTILE]: HOSTILE, constructor: 1, __proto__x: null },
    value: 0.5,
    attempt: 1,
  }),
  trialRow(1, {
    state: "succeeded",
    job: "j23t1",
    parameters: { [HOSTILE]: "b", constructor: 2 },
    value: 0.25,
    attempt: 1,
  }),
  trialRow(2, {
    state: "failed",
    job: "j23t2",
    parameters: { toString: true },
    value: Number.NaN,
    attempt: 1,
    error: HOSTILE,
  }),
];
const ended = { state: "succeeded", ended: NOW - 100, held: [], reason: null };

/** Sweeps with their rows, by what they show. */
export const sweeps = {
  running: { job: sweep(rows), rows },
  population: {
    job: sweep(
      population,
      { population: { ...OF_FOUR, factors: [0.8, 1.2] } },
      { id: "j25", name: "evolved", ...ended },
    ),
    rows: population,
  },
  one: { job: sweep(alone, {}, { id: "j21", name: "learning-rates", ...ended }), rows: alone },
  unbegun: {
    job: sweep(
      unbegun,
      {},
      {
        id: "j22",
        name: "not-yet",
        state: "queued",
        started: null,
        reason: {
          code: "told",
          text: "",
          params: {},
          sentences: [{ role: "state", text: "Waiting for 1 GPU: all are held." }],
        },
      },
    ),
    rows: unbegun,
  },
  nameless: {
    job: sweep(unbegun, { metric: "" }, { id: "j24", name: "no-metric", state: "queued", started: null }),
    rows: unbegun,
  },
  mapped: {
    job: sweep(unbegun, { metric: "", goal: "" }, { id: "j26", name: "calls", state: "queued", started: null }),
    rows: unbegun,
  },
  hostile: { job: sweep(hostile, { metric: HOSTILE }, { id: "j23", name: HOSTILE }), rows: hostile },
};

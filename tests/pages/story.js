/** Hand-written wire data: susan's two trainings borrow the pool, joe comes back for his quota. */

export const NOW = 1_760_000_000;

const reason = (...sentences) => ({
  code: "told",
  text: sentences.map(([, text]) => text).join(" "),
  sentences: sentences.map(([role, text]) => ({ role, text })),
  params: { for_project: "nlp" },
});
const inOneLine = (headline, why, brief = headline) => ({ ...why, headline, brief });
const gpu = (index, borrowed = false) => ({
  node: "train",
  index,
  uuid: `SIM-${index}`,
  label: `train ${index}`,
  borrowed,
});

export const HOSTILE = '<img src=x onerror="window.hacked=1">\u202egpj.exe\u001b[31mred\u001b]8;;http://evil\u0007link';

/** The options of a job. */
export function options(changes = {}) {
  return {
    priority: 50,
    preemptible: true,
    workers: 1,
    gpus: 4,
    min_workers: 1,
    gpu_types: [],
    image: null,
    time_limit: null,
    retries: 0,
    tags: [],
    ...changes,
  };
}

export function job(changes = {}) {
  return {
    id: "j1",
    name: "digits-large",
    kind: "function",
    user: "susan",
    project: "vision",
    state: "running",
    options: options(),
    submitted: NOW - 1500,
    argv: ["python", "train.py"],
    source: "",
    started: NOW - 1480,
    ended: null,
    held_by_user: false,
    held: [gpu(0), gpu(1), gpu(2, true), gpu(3, true)],
    attempt: 1,
    attempts: [attempt(1, "running", NOW - 1480, null)],
    progress: { step: 41, of: 60, at: NOW - 8, values: { loss: 0.213 }, ends: NOW + 420 },
    usage: null,
    saved: NOW - 20,
    saved_step: 40,
    reason: inOneLine(
      "Running on 4 GPUs (2 borrowed).",
      reason(["state", "Running on 4 GPUs: 2 within the quota, 2 borrowed."]),
    ),
    place: null,
    starts: null,
    failures: 0,
    gpu_seconds: 5900,
    exit_code: null,
    error: "",
    ...changes,
  };
}

const GIB = 2 ** 30;

/** The use of four simulated GPUs. */
export function use(utilization, memory, changes = {}) {
  return {
    at: NOW - 3,
    gpus: 4,
    utilization,
    memory_used: memory,
    memory_total: null,
    simulated: true,
    unused_for: null,
    unused_share: null,
    ...changes,
  };
}

const SHOWN = [
  { name: "utilization", words: "{} % used", scale: 100, positive: false },
  { name: "memory_used", words: "{} of memory", scale: 1 / 2 ** 20, positive: false },
];

/** Readings of the first GPUs of the pool, with these utilizations. */
export function gpuUsage(...utilizations) {
  return {
    measured: true,
    at: NOW - 3,
    shown: SHOWN,
    gpus: utilizations.map((utilization, index) => ({
      uuid: `SIM-${index}`,
      node: "train",
      index,
      environment: "train",
      model: "",
      simulated: true,
      lost: false,
      user: "",
      project: "",
      held: true,
      utilization,
      memory_used: 12 * GIB,
      memory_total: null,
      power: null,
      temperature: null,
      processes: null,
      ecc_corrected: null,
      ecc_uncorrected: null,
      xid: null,
    })),
  };
}

export function attempt(number, state, started, ended, changes = {}) {
  return {
    number,
    state,
    workers: 1,
    gpus: [gpu(0), gpu(1), gpu(2, true), gpu(3, true)],
    borrowed: [{ start: started - 1, end: ended, gpus: 2 }],
    created: started - 1,
    started,
    ended,
    exit_code: null,
    exit_signal: null,
    saved: null,
    resumed_from: null,
    why: null,
    ended_why: null,
    ...changes,
  };
}

export function points(steps, attempts = [[1, 0]]) {
  return Array.from({ length: steps }, (_, seq) => {
    const number = attempts.findLast(([, from]) => seq >= from)[0];
    const loss = 2.3 * Math.exp(-seq / 14) + 0.12 + 0.07 * Math.sin(seq * 1.7) * Math.exp(-seq / 40);
    return { seq, attempt: number, at: NOW - 1480 + 30 * seq, step: seq, values: { loss, accuracy: 1 - loss / 3 } };
  });
}

const askedBack = reason(["cause", "The project “nlp” asked for its 2 GPUs back, for the job “bert”."]);

export const jobs = {
  running: job({ usage: use(0.87, 51 * GIB) }),
  queued: job({
    id: "j2",
    name: "sweep-7",
    user: "jemma",
    project: "speech",
    state: "queued",
    submitted: NOW - 130,
    started: null,
    held: [],
    attempt: 0,
    attempts: [],
    progress: { step: null, of: null, at: null, values: {} },
    saved_step: null,
    gpus: 8,
    reason: inOneLine(
      "Waiting for 8 GPUs on one node: 4 are free. Number 2 in line.",
      reason(
        ["state", "Waiting for 8 GPUs on one node: no node has more than 4 free."],
        ["state", "The project speech holds 1 of its 2 GPUs."],
        ["place", "Number 2 in line, after 1 job of speech."],
      ),
    ),
    place: 2,
    starts: { earliest: NOW + 300, likely: NOW + 700, latest: NOW + 2400, why: null, at: NOW },
  }),
  starting: job({
    id: "j3",
    name: "bert-tiny",
    user: "joe",
    project: "nlp",
    state: "starting",
    submitted: NOW - 6,
    started: NOW - 2,
    options: options({ gpus: 2 }),
    held: [gpu(4), gpu(5)],
    attempts: [attempt(1, "starting", NOW - 2, null, { gpus: [gpu(4), gpu(5)] })],
    progress: { step: null, of: null, at: null, values: {} },
    saved_step: null,
    reason: inOneLine("Starting on 2 GPUs.", reason(["state", "Starting on 2 GPUs, all within the quota."])),
  }),
  pausing: job({
    id: "j4",
    name: "digits-wide",
    state: "pausing",
    attempts: [attempt(1, "pausing", NOW - 1480, null)],
    reason: reason(
      ["state", "Saving its work, then giving its 4 GPUs back."],
      ["cause", "The project “nlp” asked for its 2 GPUs back, for the job “bert”."],
    ),
  }),
  paused: job({
    id: "j5",
    name: "digits-wide",
    state: "paused",
    held: [],
    attempt: 2,
    attempts: [
      attempt(1, "paused", NOW - 1480, NOW - 1000, {
        ended_why: reason(["cause", "The project “jemma” asked for its 4 GPUs back, for the job “sweep”."]),
      }),
      attempt(2, "paused", NOW - 700, NOW - 180, { ended_why: askedBack, resumed_from: 17 }),
    ],
    progress: { step: 41, of: 60, at: NOW - 190, values: { loss: 0.21 } },
    saved_step: 41,
    reason: inOneLine(
      "Paused for “bert” (GPUs of “nlp”). Waiting for 4 GPUs on one node: 1 is free. Next in line.",
      reason(
        ["cause", "The project “nlp” asked for its 2 GPUs back, for the job “bert”."],
        ["state", "Waiting for 4 GPUs on one node: no node has more than 1 free."],
        ["place", "Next in line."],
      ),
      "Paused for “bert”.",
    ),
    starts: {
      earliest: NOW + 600,
      likely: NOW + 720,
      latest: null,
      why: reason(["state", "Nothing bounds how long the jobs before it may run."]),
      at: NOW,
    },
  }),
  succeeded: job({
    id: "j6",
    name: "baseline",
    state: "succeeded",
    held: [],
    ended: NOW - 7300,
    submitted: NOW - 9900,
    attempt: 3,
    attempts: [
      attempt(1, "paused", NOW - 9700, NOW - 9200, { ended_why: askedBack }),
      attempt(2, "paused", NOW - 8900, NOW - 8300, { ended_why: askedBack }),
      attempt(3, "succeeded", NOW - 8000, NOW - 7300),
    ],
    progress: { step: 60, of: 60, at: NOW - 7310, values: {} },
    gpu_seconds: 7200,
  }),
  failed: job({
    id: "j7",
    name: "oom-again",
    state: "failed",
    user: "joe",
    project: "nlp",
    held: [],
    ended: NOW - 40,
    attempts: [attempt(1, "failed", NOW - 1480, NOW - 40, { exit_code: 1 })],
    exit_code: 1,
    error: "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB on GPU 0",
  }),
  hostile: job({
    id: "j8",
    name: HOSTILE,
    user: HOSTILE,
    project: HOSTILE,
    state: "queued",
    held: [],
    attempt: 0,
    attempts: [],
    error: HOSTILE,
    reason: reason(["state", HOSTILE]),
  }),
};

export const log = Array.from(
  { length: 60 },
  (_, line) => `epoch ${line + 1}/60  loss ${(2.3 * Math.exp(-line / 14) + 0.12).toFixed(4)}  saved`,
).join("\n");

const project = (name, colour, changes) => ({
  name,
  parent: null,
  quota: 2,
  limit: null,
  weight: 1,
  priority: 100,
  build_quota: 1,
  fair_share: 2,
  held: 0,
  borrowed: 0,
  waiting: 0,
  running_jobs: 0,
  waiting_jobs: 0,
  colour,
  members: [],
  version: 1,
  ...changes,
});

const held = (user, project_name, name, borrowed, state = "running") => ({
  kind: "job",
  user,
  project: project_name,
  job: `id-${name}`,
  name,
  state,
  borrowed,
});
const cell = (index, holder = null, reserved_for = "") => ({ index, uuid: `SIM-${index}`, holder, reserved_for });

export function pool(changes = {}) {
  return {
    seq: 12,
    nodes: [
      {
        name: "train",
        environment: "train",
        gpu_type: "a100",
        available: true,
        simulated: true,
        labels: {},
        gpus: [
          cell(0, held("susan", "vision", "digits-large", false)),
          cell(1, held("susan", "vision", "digits-large", false)),
          cell(2, held("susan", "vision", "digits-large", true)),
          cell(3, held("susan", "vision", "digits-large", true)),
          cell(4, held("susan", "vision", "digits-wide", true, "pausing"), "nlp"),
          cell(5, held("susan", "vision", "digits-wide", true, "pausing"), "nlp"),
          cell(6, held("jemma", "speech", "sweep", false)),
          cell(7),
        ],
        free: { idle: 1 },
      },
      {
        name: "build",
        environment: "build",
        gpu_type: "",
        available: true,
        simulated: true,
        labels: {},
        gpus: [
          cell(0, {
            kind: "workspace",
            user: "susan",
            project: "vision",
            job: "",
            name: "",
            state: "",
            borrowed: false,
          }),
          cell(1),
          cell(2, { kind: "foreign", user: "", project: "", job: "", name: "", state: "", borrowed: false }),
        ],
        free: { idle: 1 },
      },
    ],
    projects: [
      project("vision", 0, { held: 6, borrowed: 4, waiting: 4, running_jobs: 2, waiting_jobs: 1, members: ["susan"] }),
      project("nlp", 1, { waiting: 2, waiting_jobs: 1, members: ["joe"] }),
      project("speech", 2, { held: 1, running_jobs: 1, members: ["jemma"] }),
    ],
    train_gpus: 8,
    train_held: 7,
    build_gpus: 3,
    build_held: 1,
    simulated: true,
    quota_sum: 6,
    train_free: { idle: 1 },
    build_free: { idle: 1 },
    ...changes,
  };
}

export function bigPool() {
  const names = ["vision", "nlp", "speech", "robots", "maps", "search", "ads", "games", "music", "bio"];
  const nodes = Array.from({ length: 20 }, (_, node) =>
    withFree({
      name: `dgx-${node + 1}`,
      environment: "train",
      gpu_type: "h100",
      available: node !== 7,
      simulated: false,
      labels: {},
      gpus: Array.from({ length: 8 }, (_cell, index) => {
        const place = node * 8 + index;
        return cell(
          index,
          place % 11 === 0
            ? null
            : held("u", names[Math.floor(place / 9) % 10], `job-${Math.floor(place / 9)}`, place % 9 > 4),
        );
      }),
    }),
  );
  return {
    ...pool(),
    nodes,
    projects: names.map((name, colour) => project(name, colour, {})),
    train_free: { idle: 14, "lost or closed": 1 },
  };
}

function withFree(node) {
  const free = node.gpus.filter(({ holder }) => !holder).length;
  return { ...node, free: free ? { [node.available ? "idle" : "lost or closed"]: free } : {} };
}

export const history = {
  start: NOW - 3600,
  end: NOW,
  total: 8,
  quotas: { vision: 2, nlp: 2, speech: 2 },
  points: [
    { at: NOW - 3600, held: { vision: 2 }, borrowed: {} },
    { at: NOW - 3100, held: { vision: 4, speech: 1 }, borrowed: { vision: 2 } },
    { at: NOW - 2500, held: { vision: 8 }, borrowed: { vision: 6 } },
    { at: NOW - 1600, held: { vision: 4, nlp: 2 }, borrowed: { vision: 2 } },
    { at: NOW - 1100, held: { vision: 4, nlp: 4 }, borrowed: { vision: 2, nlp: 2 } },
    { at: NOW - 600, held: { vision: 4, nlp: 2, speech: 2 }, borrowed: { vision: 2 } },
    { at: NOW - 200, held: { vision: 6, speech: 1 }, borrowed: { vision: 4 } },
    { at: NOW, held: { vision: 6, speech: 1 }, borrowed: { vision: 4 } },
  ],
  share_held: 0.78,
  share_used: 0.64,
};

/** The environment of a job in words. `scheduler/client/descriptions.py` has the same for terminals and Python. */

import { h } from "./dom.js";
import { clean, count, listed, size } from "./words.js";

const SHOWN = 5;

/** The environment of a job, as a list; `image` is its container image, null on one machine. */
export function environmentFacts(environment, image, key = "environment") {
  const packages = Object.entries(environment.packages).sort(([a], [b]) => (a < b ? -1 : 1));
  const facts = [
    ["Program", programWords(environment, image)],
    ["Python", pythonWords(environment, image)],
    ["Packages", packages.map(([name, version]) => `${clean(name)} ${clean(version)}`).join(", ")],
    ["Installed for it", environment.requirements.map(clean).join(", ")],
    ["Missing", clean(environment.missing_text)],
    ["Files", filesWords(environment)],
    ["Runs in place", inPlaceWords(environment)],
    ...projectFacts(environment.tree),
    ["Image", image ? clean(image) : ""],
    ["Variables", environment.variables.map(clean).join(", ")],
    ["Not sent", environment.unsent.map(clean).join(", ")],
  ];
  return h(
    "dl",
    { key, class: "st-facts", "data-testid": "environment" },
    facts
      .filter(([, words]) => words)
      .map(([name, words]) =>
        h(
          "div",
          { key: name },
          h("dt", {}, name),
          h("dd", { class: name === "Missing" ? "st-field-wrong" : "" }, words),
        ),
      ),
  );
}

/** The environment in a few words, for the summary line of a fold. */
export function environmentSummary({ python, packages, file_count: sent, tree, in_place: folder }) {
  const number = Object.keys(packages).length;
  const files = sent + (tree?.file_count ?? 0);
  return [
    python ? `Python ${clean(python)}` : "",
    number ? count(number, "package") : "",
    files ? count(files, "file") : folder ? "in place" : "no files",
  ]
    .filter(Boolean)
    .join(", ");
}

function programWords({ program, path }, image) {
  return image || program === path ? "" : clean(program);
}

function pythonWords({ python, path, name, image: submitted }, image) {
  if (!python)
    return `the one that the command chooses${path && !image ? `; first on its PATH is ${clean(path)}` : ""}`;
  const words = `${clean(python)}, ${clean(path)}${name ? ` (environment ${clean(name)})` : ""}`;
  if (!image) return words;
  return `${words} where it was submitted${submitted === image ? ", in the same image" : "; the image has its own"}`;
}

function filesWords({ files, file_count: all, file_bytes: bytes, tree, in_place: folder }) {
  if (!all) return tree || folder ? "" : "none";
  return `${some(files, all)} (${size(bytes)})`;
}

function inPlaceWords({ in_place: folder }) {
  return folder ? `in ${clean(folder)} itself, with the files as they are when it runs` : "";
}

/** The project of a job: its copied, linked and ignored files. */
function projectFacts(tree) {
  if (!tree) return [];
  const { outside = [] } = tree;
  const folders = listed([tree.root, ...outside].map(clean));
  const copied = `${folders}, ${count(tree.file_count, "file")} copied (${size(tree.file_bytes)})`;
  return [
    ["Project", tree.files.length ? `${copied}: ${some(tree.files, tree.file_count)}` : copied],
    ["Read and written in place", tree.linked_count ? some(tree.linked, tree.linked_count) : ""],
    ["Ignored", tree.ignored_count ? some(tree.ignored, tree.ignored_count) : ""],
  ];
}

function some(names, all) {
  const named = names.slice(0, SHOWN);
  const rest = all - named.length;
  return `${named.map(clean).join(", ")}${rest > 0 ? ` and ${count(rest, "more", "more")}` : ""}`;
}

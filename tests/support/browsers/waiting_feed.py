"""A feed in a page whose questions wait for the test."""

from __future__ import annotations

from playwright.sync_api import Page

MINE = "jobs?mine=1&order=running&limit=50"
"""The question for the jobs of the person."""
WAITING = """async () => {
    const { PoolFeed } = await import("/visuals/live/pool_feed.js");
    const { delivered, followStream } = await import("/visuals/live/event_stream.js");
    const { RerunEditor } = await import("/visuals/live/rerun_editor.js");
    const waiting = [];
    const call = (_method, path) => new Promise((done, failed) => waiting.push({ path, done, failed }));
    const { readable, writable } = new TransformStream();
    const writer = writable.getWriter();
    window.asked = () => waiting.map(({ path }) => path);
    window.answer = (place, body) => waiting.splice(place, 1)[0].done(body);
    window.refuse = (place, error) => waiting.splice(place, 1)[0].failed(error);
    window.say = (kind, data) => {
        writer.write(new TextEncoder().encode(`event: ${kind}\\ndata: ${JSON.stringify(data)}\\n\\n`));
    };
    window.hangUp = () => writer.close();
    const follow = (on, show) =>
      followStream(async () => new Response(readable), delivered(on), (state, problem) =>
        show(state, problem, state !== "away"));
    window.feed = new PoolFeed({ call, follow }, { pageOf: () => null });
    window.editor = new RerunEditor(call, "first", () => {}, () => {});
}"""
"""A feed and an editor whose questions wait for the test: `asked()`, `answer(place, body)`,
`refuse(place, error)`, `say(kind, event)`, and `hangUp()`, after which the pool is away."""


def expect_asked(gallery: Page, *paths: str) -> None:
    """Wait until exactly these questions wait for an answer."""
    gallery.wait_for_function("(paths) => String(asked()) === String(paths)", arg=list(paths))

"""A page as the host of a notebook widget: its model, and the messages between page and kernel."""

from __future__ import annotations

WIDGET = """async ([source, traits]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const widget = (await import(url)).default;
    const listeners = new Map();
    const model = {
        sent: [],
        get: (name) => traits[name],
        set: (name, value) => {
            traits[name] = value;
            listeners.get(`change:${name}`)?.forEach((call) => call());
        },
        on: (name, call) => listeners.set(name, [...(listeners.get(name) ?? []), call]),
        off: (name, call) => listeners.set(name, (listeners.get(name) ?? []).filter((known) => known !== call)),
        send: (message) => model.sent.push(message),
        hear: (content) => (listeners.get("msg:custom") ?? []).forEach((call) => call(content)),
        widget_manager: window.manager,
    };
    const el = document.createElement("div");
    el.id = "cell";
    document.body.append(el);
    window.model = model;
    widget.initialize({ model });
    window.unmount = widget.render({ model, el });
    window.left = () => [...listeners.values()].flat().length;
}"""

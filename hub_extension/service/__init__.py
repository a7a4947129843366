"""The service process: it composes store, engine, executor, API and pages."""

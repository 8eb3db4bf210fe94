"""Work that the server does itself: WASM runs and triggers."""

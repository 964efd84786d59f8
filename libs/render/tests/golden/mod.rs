//! The plain operations against Pillow and torchvision. The fixtures and how they were made are
//! described in `tests/fixtures/README.md`.

mod blur;
mod broken;
mod cases;
mod cast;
mod certificates;
mod certified;
mod colour;
mod cornered;
mod corners;
mod decode;
mod draws;
mod fixtures;
mod followed;
mod geometry;
mod levels;
mod more;
mod mx;
mod naflex;
mod passes;
mod placement;
mod resize;
mod scaled;
mod turned;
mod views;

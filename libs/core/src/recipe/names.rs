//! The names of the presets.

/// Names of the presets with a line on each.
pub const PRESETS: &[(&str, &str)] = &[
    ("dinov2", "2x224 + 8x96 as the released code trains: blur 0.0 / 0.9 / 0.5"),
    ("dinov2-paper", "2x224 + 8x96 as the paper says: blur 1.0 / 0.1 / 0.5"),
    ("dinov3", "2x256 + 8x112 without flips, as the released code trains the 7B"),
    ("dinov3-gram", "as dinov3, and 2x512 of the same global crops for the Gram teacher"),
    ("dinov3-vitl", "2x224 + 8x96 with flips, as the released code trains a ViT-L on ImageNet"),
    ("imagenet-train", "1x224, random resized crop and flip"),
    ("imagenet-eval", "1x224, resize to 256 and centre crop"),
    ("mae", "1x224: random resized crop from a fifth of the area, flip"),
    ("clip-train", "1x224 as OpenCLIP trains: random resized crop from nine tenths of the area"),
    ("clip-eval", "1x224 as CLIP evaluates: resize to 224 and centre crop"),
    ("siglip", "1x224 as OpenCLIP prepares it for SigLIP: resized whatever its shape"),
    ("ijepa", "1x224 as I-JEPA trains: random resized crop from three tenths of the area"),
    ("supervised-timm", "1x224 as timm trains: rand-m9-mstd0.5-inc1 and random erasing"),
    (
        "torchvision-v2",
        "1x176 as torchvision's newer weights were trained: TrivialAugmentWide, erasing",
    ),
    ("simclr", "2x224 as VISSL trains: strong colour distortion, blur"),
    ("mocov3", "2x224 as MoCo v3 trains: two views with unlike blur, one solarised"),
    ("byol", "2x224: BYOL's two views, as MoCo v3 has them"),
    ("ibot", "2x224 + 10x96 as iBOT trains its ViT models"),
    ("swav", "2x224 + 6x96 as SwAV trains"),
    ("raw", "no decode: the encoded bytes and their number"),
];

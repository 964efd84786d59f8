"""What DINOv2's released code does to an image, as numbers (`facebookresearch/dinov2`,
`data/augmentations.py`), for the peers that have it in their own words."""

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Effective probabilities of the released code for global view 1, global view 2 and the locals.
BLUR = (0.0, 0.9, 0.5)
# Side of a view and its share of the image's area.
GLOBAL, LOCAL, LOCALS = (224, (0.32, 1.0)), (96, (0.05, 0.32)), 8

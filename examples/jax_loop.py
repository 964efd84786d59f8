"""Trains a small convolutional network in JAX; batches become JAX's arrays through DLPack, without a copy.

    python examples/jax_loop.py 'tests/data/photos/*.tar' --classes 87
"""

import jax
import jax.numpy as jnp
from jax import lax
from loading import arguments, classification, open_loader

LEARNING_RATE, MOMENTUM = 0.05, 0.9


def parse():
    parser = arguments(__doc__)
    parser.add_argument("--classes", type=int, required=True, help="number of classes")
    parser.add_argument("--epochs", type=int, default=20, help="epochs of training")
    parser.add_argument("--size", type=int, default=32, help="side of an image, in pixels")
    return parser.parse_args()


def initial(key, classes, width=32):
    """Weights of two convolutions and a linear layer, initialised as in He et al."""
    shapes = {"first": (width, 3, 3, 3), "second": (2 * width, width, 3, 3), "linear": (2 * width, classes)}
    keys = dict(zip(shapes, jax.random.split(key, len(shapes))))

    def weights(name, shape):
        inputs = shape[0] if name == "linear" else shape[1] * shape[2] * shape[3]
        return jax.random.normal(keys[name], shape) * (2 / inputs) ** 0.5

    return {name: weights(name, shape) for name, shape in shapes.items()}


def outputs(weights, images):
    for name in ("first", "second"):
        images = jax.nn.relu(lax.conv(images, weights[name], (2, 2), "SAME"))
    return images.mean((2, 3)) @ weights["linear"]


def loss_of(weights, images, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(outputs(weights, images)), labels[:, None], 1)
    return -chosen.mean()


@jax.jit
def train_step(weights, velocity, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradients)
    weights = jax.tree.map(lambda w, v: w - LEARNING_RATE * v, weights, velocity)
    return weights, velocity, loss


def arrays(batch):
    """Images and labels in the batch's memory, which they keep; JAX has 64-bit integers only if configured."""
    return jax.dlpack.from_dlpack(batch.images), jnp.asarray(batch.labels.numpy(), dtype=jnp.int32)


def main():
    options = parse()
    weights = initial(jax.random.key(options.seed), options.classes)
    velocity = jax.tree.map(jnp.zeros_like, weights)
    with open_loader(options, options.data, recipe=classification(options.size, train=True)) as loader:
        for epoch in range(options.epochs):
            losses = []
            for batch in loader:
                weights, velocity, loss = train_step(weights, velocity, *arrays(batch))
                losses.append(loss)
            print(f"epoch {epoch:3}  loss {jnp.stack(losses).mean():.4f}", flush=True)


if __name__ == "__main__":
    main()

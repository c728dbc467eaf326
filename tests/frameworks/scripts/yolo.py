"""ultralytics: YOLO from its description alone, on eight pictures with a box in each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from ultralytics import YOLO


def make_boxes(folder, length):
    numbers = np.random.default_rng(length)
    for name in ("images", "labels"):
        Path(folder, name).mkdir(parents=True)
    for number in range(length):
        pixels = numbers.integers(0, 60, (64, 64, 3), dtype=np.uint8)
        x, y = numbers.integers(0, 32, 2)
        pixels[y : y + 32, x : x + 32] += 150
        Image.fromarray(pixels).save(Path(folder, "images", f"{number}.png"))
        Path(folder, "labels", f"{number}.txt").write_text(f"0 {(x + 16) / 64} {(y + 16) / 64} 0.5 0.5\n")


def main():
    make_boxes("boxes/train", 32)
    make_boxes("boxes/val", 16)
    Path("boxes/boxes.yaml").write_text(
        f"path: {Path('boxes').resolve()}\ntrain: train/images\nval: val/images\nnames: {{0: box}}\n"
    )
    model = YOLO("yolov8n.yaml")
    model.train(
        data="boxes/boxes.yaml",
        epochs=2,
        imgsz=64,
        batch=8,
        workers=2,
        device="cpu",
        amp=False,
        plots=False,
        verbose=False,
        project=str(Path("trained").resolve()),
        pretrained=False,
        nbs=8,
        optimizer="SGD",
    )
    for line in Path(model.trainer.save_dir, "results.csv").read_text().splitlines()[1:]:
        epoch, _, *values = line.split(",")
        print(f"epoch {epoch}: loss {values[:3]}")


if __name__ == "__main__":
    main()

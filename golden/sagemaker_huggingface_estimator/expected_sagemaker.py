"""Start the training of the intent classifier on SageMaker."""
import argparse

import sagemaker
from sagemaker.huggingface import HuggingFace
from sagemaker.huggingface import TrainingCompilerConfig

METRICS = [
    {"Name": "loss", "Regex": r"'loss': ([0-9.]+)"},
    {"Name": "eval_accuracy", "Regex": r"'eval_accuracy': ([0-9.]+)"},
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--bucket", required=True)
    options = parser.parse_args()

    session = sagemaker.Session(default_bucket=options.bucket)
    role = sagemaker.get_execution_role()
    hyperparameters = {
        "model_name_or_path": "roberta-base",
        "per_device_train_batch_size": 24,
        "learning_rate": 5e-5,
        "num_train_epochs": options.epochs,
        "do_train": True,
    }
    estimator = HuggingFace(
        entry_point="train.py",
        source_dir="./scripts",
        role=role,
        instance_type="ml.p3.8xlarge",
        instance_count=1,
        transformers_version="4.21.1",
        pytorch_version="1.11.0",
        py_version="py38",
        hyperparameters=hyperparameters,
        distribution={"pytorchxla": {"enabled": True}},
        environment={"TOKENIZERS_PARALLELISM": "false", "GPU_NUM_DEVICES": "4"},
        metric_definitions=METRICS,
        disable_profiler=True,
        debugger_hook_config=False,
        sagemaker_session=session,
        compiler_config=TrainingCompilerConfig(),
    )
    data = session.default_bucket()
    estimator.fit({"train": f"s3://{data}/intents/train", "test": f"s3://{data}/intents/test"})


if __name__ == "__main__":
    main()

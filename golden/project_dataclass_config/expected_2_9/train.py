from experiment.config import parse
from experiment.learner import Learner


def main():
    config = parse()
    learner = Learner(config)
    for epoch in range(config.epochs):
        loss = learner.fit_epoch(epoch)
        print(f"epoch {epoch} loss {loss:.1f}")
    learner.save("learner.pt")


if __name__ == "__main__":
    main()

MODELS = {}


def register_model(name):
    def decorator(cls):
        MODELS[name] = cls
        return cls

    return decorator

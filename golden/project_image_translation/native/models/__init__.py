from models.pix_model import PixModel


def create_model(opt):
    instance = PixModel(opt)
    print("model [%s] was created" % type(instance).__name__)
    return instance

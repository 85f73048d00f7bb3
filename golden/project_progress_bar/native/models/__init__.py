from .residual import *

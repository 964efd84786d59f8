"""A training loop of each framework.

A module has NAME, PACKAGES, `opened(kind, folder)`, which makes what the framework is given for the loader "headwater" or
"pytorch", and `train(loader, plan)`, which returns the steps that the framework made.
"""

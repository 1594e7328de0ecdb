"""Code that trueup's Ansible modules and its analysis package share.

On a node this package is ``ansible.module_utils.trueup_node``; on the controller it is installed as
``trueup``.
Therefore: Python 3.9 syntax, the standard library only, and relative imports inside the package.
"""

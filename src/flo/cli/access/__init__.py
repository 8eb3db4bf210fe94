"""flo token ..., flo login, flo context ..."""

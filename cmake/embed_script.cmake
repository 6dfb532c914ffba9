# Turn a script into a C constant, which HEADER declares:
# cmake -DNAME=... -DIN=... -DOUT=... -DHEADER=... -P embed_script.cmake
cmake_minimum_required(VERSION 3.20)
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
file(WRITE "${OUT}"
  "/* Generated from ${NAME}.lua. Do not edit, do not commit. */\n"
  "#include \"${HEADER}\"\n"
  "static const char text[] = {${bytes}0};\n"
  "const struct script ${NAME}_script = {\"${NAME}\", text, sizeof(text) - 1};\n")

# Turn a file into a struct script, which HEADER declares.
# cmake -DNAME=... -DIN=... -DOUT=... -DHEADER=... -P embed_script.cmake
cmake_minimum_required(VERSION 3.20)
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
get_filename_component(file "${IN}" NAME)
set(constant "const struct script ${NAME}_script = {\"${NAME}\", (const char *)text, sizeof(text) - 1};")
file(WRITE "${OUT}"
  "/* Generated from ${file}. Do not edit, do not commit. */\n"
  "#include \"${HEADER}\"\n"
  "static const unsigned char text[] = {${bytes}0};\n"
  "${constant}\n")
